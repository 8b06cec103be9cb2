"""The sdist of a project for CUDA, built on a machine that needs none: its setup.py gets the answers it asks for."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from tests.builders.sources import committed, write
from tests.integration.conftest import CommandLine, Ran

pytestmark = pytest.mark.slow

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
CONFIG = f"""\
package: demo
owner: "@demo/team"
python: ["{PYTHON}"]
torch: ["2.13"]
platforms:
  linux-cuda: {{cuda: ["13.0"], archs: ["9.0"]}}
"""
PYPROJECT = '[build-system]\nrequires = ["setuptools", "torch"]\nbuild-backend = "setuptools.build_meta"\n'
SETUP = """\
import os
import subprocess

import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

sources = ["csrc/bind.cpp", "csrc/k.cu"]
extensions = []
{}
setup(name="demo", version="1.0", ext_modules=extensions, cmdclass={{"build_ext": BuildExtension}})
"""
MAKE = 'extensions = [CUDAExtension("demo_C", sources)]'
KERNEL = '#include <ATen/ATen.h>\n#include "scale.cuh"\n'
FILES = {"csrc/bind.cpp": "#include <torch/extension.h>\n", "csrc/k.cu": KERNEL, "csrc/scale.cuh": "#pragma once\n"}
ASKS_NVCC = f"""\
said = subprocess.check_output([CUDA_HOME + "/bin/nvcc", "-V"], text=True)
if "release 13.0" in said:
    {MAKE}
"""


def sdist_of(fatwheel: CommandLine, folder: Path, condition: str, manifest: str = "include csrc/*.cuh\n") -> Ran:
    files = {"fatwheel.yml": CONFIG, "pyproject.toml": PYPROJECT, "setup.py": SETUP.format(condition)}
    committed(write(folder, {**files, **FILES, "MANIFEST.in": manifest}))
    return fatwheel("build", "--job", "sdist", "--out", "dist", cwd=folder)


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param(
            f'if CUDA_HOME is None:\n    raise RuntimeError("CUDA_HOME is not set")\n{MAKE}', id="raises-without-it"
        ),
        pytest.param(MAKE, id="constructs-it-unguarded", marks=pytest.mark.long),
        pytest.param(f"if torch.version.cuda:\n    {MAKE}", id="asks-torch", marks=pytest.mark.long),
        pytest.param(ASKS_NVCC, id="asks-nvcc", marks=pytest.mark.long),
        pytest.param(
            'if torch.cuda.is_available() and CUDA_HOME or os.environ.get("FORCE_CUDA") == "1":\n    ' + MAKE,
            id="asks-for-a-gpu",
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_sdist_has_the_kernels_whatever_its_setup_asks(
    fatwheel: CommandLine, tmp_path: Path, condition: str
) -> None:
    ran = sdist_of(fatwheel, tmp_path, condition)
    assert ran.status == 0, ran.stderr
    with tarfile.open(tmp_path / "dist/demo-1.0.tar.gz") as archive:
        assert {f"demo-1.0/{name}" for name in FILES} <= set(archive.getnames())


@pytest.mark.long
def test_an_sdist_that_lacks_a_header_is_refused_before_anything_is_compiled(
    fatwheel: CommandLine, tmp_path: Path
) -> None:
    ran = sdist_of(fatwheel, tmp_path, MAKE, "include README.md\n")
    assert (ran.status, "csrc/k.cu:2: includes csrc/scale.cuh, which demo-1.0.tar.gz lacks" in ran.stderr) == (1, True)
    assert "`include csrc/scale.cuh` in MANIFEST.in" in ran.stderr
