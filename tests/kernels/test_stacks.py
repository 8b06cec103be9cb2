"""The libraries that people use, installed beside the torch here, on tiny models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import stacks

pytestmark = pytest.mark.long  # they install

ROOT = Path(__file__).parents[2]
# With what they need but torch, which is here: some 60 MB.
DISTRIBUTIONS = (
    *("transformers==5.24.0", "peft==0.21.2", "accelerate==1.15.0", "torchao==0.18.0", "compressed-tensors==0.20.1"),
    *("annotated-types", "anyio", "certifi", "click", "h11", "hf-xet", "httpcore", "httpx2", "httpcore2"),
    *("huggingface-hub", "idna", "loguru", "packaging", "psutil", "pydantic", "pydantic-core", "pyyaml", "regex"),
    *("requests", "rich", "safetensors"),
    *("shellingham", "sniffio", "tokenizers", "tqdm", "truststore", "typer", "typing-inspection"),
)
INSTALLED = "AO_STACKS"  # in the environment: a folder that another run installed into


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    if INSTALLED in os.environ:
        return os.environ[INSTALLED]
    folder = str(tmp_path_factory.mktemp("stacks"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *DISTRIBUTIONS]
    subprocess.run(command, check=True)
    return folder


SHOWN = [name for name in vars(stacks) if name.partition("_")[0] in stacks.LIBRARIES]


@pytest.mark.parametrize("name", SHOWN)
def test_what_people_do_works(name: str, installed: str) -> None:
    path = os.pathsep.join((installed, str(ROOT / "package" / "src"), str(ROOT)))
    environ = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", f"from tests.kernels.stacks import {name}; {name}()"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environ, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
