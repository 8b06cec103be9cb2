"""The stand-ins for CUDA: what a setup.py that asks for it is told, and what it cannot do with them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.build.sdk.lending import open_answers, put_toolkit
from ci_tools.build.sdk.torch_parts import TorchParts
from ci_tools.catalog.accelerators.cuda import CUDA as NVIDIA
from ci_tools.model.platforms import Accelerator
from ci_tools.model.versions import Minor
from tests.builders.sources import world, write

CUDA = Accelerator(NVIDIA, Minor(13, 0))
VERSION = (
    "from typing import Optional\n__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n"
)
FACTS = {"torch": "2.13.0+cpu", "accelerator": {"kind": "cpu", "version": None}, "modules": ["torch.nn"]}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        pytest.param(["--version"], 0, "Cuda compilation tools, release 13.0", id="its-version"),
        pytest.param(["-c", "k.cu", "-o", "k.o"], 1, "an sdist is built without a compiler", id="a-compile"),
    ],
)
def test_the_nvcc_of_an_sdist_only_says_its_version(
    tmp_path: Path, arguments: list[str], status: int, said: str
) -> None:
    home = put_toolkit(CUDA, tmp_path / "cuda")
    ran = subprocess.run([home / "bin/nvcc", *arguments], capture_output=True, text=True, check=False)
    assert (ran.returncode, said in ran.stdout + ran.stderr) == (status, True)
    assert "#define CUDA_VERSION 13000" in (home / "include/cuda.h").read_text()


def parts(folder: Path, label: str) -> TorchParts:
    files = {"torch/version.py": VERSION, "torch/_fatwheel.json": json.dumps(FACTS), "torch/lib/libc10.so": ""}
    return TorchParts(write(folder, files), "2.13.0+cpu", label, "torch.whl", "", ("cp311",), (), 0, 0)


def test_a_torch_for_cpus_answers_as_one_for_cuda(tmp_path: Path) -> None:
    (over,) = open_answers(parts(tmp_path / "site", "cpu"), CUDA, world(tmp_path))
    code = "import version; print(version.__version__, version.cuda, version.hip)"
    said = subprocess.run([sys.executable, "-c", code], cwd=over / "torch", capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["2.13.0+cu130", "13.0", "None"]
    told = json.loads((over / "torch/_fatwheel.json").read_text())
    assert (told["accelerator"], told["modules"]) == ({"kind": "cuda", "version": "13.0"}, ["torch.nn"])
    if sys.platform == "linux":
        assert {path.name for path in (over / "torch/lib").iterdir()} == {"libc10_cuda.so", "libtorch_cuda.so"}


def test_a_torch_for_that_cuda_answers_for_itself(tmp_path: Path) -> None:
    assert open_answers(parts(tmp_path / "site", "cu130"), CUDA, world(tmp_path)) == ()
