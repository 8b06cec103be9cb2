from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "kernels"
SOURCES = sorted(KERNELS.glob("*/*.cu"))


@pytest.fixture
def nvcc(cuda_home: Path) -> Path:
    return cuda_home / "bin" / "nvcc"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
@pytest.mark.parametrize("source", [pytest.param(source, id=source.stem) for source in SOURCES])
def test_a_kernel_compiles_without_warnings(nvcc: Path, source: Path, architecture: str, tmp_path: Path) -> None:
    strict = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra", "-std=c++17"]
    subprocess.run([nvcc, *strict, "-arch", architecture, "-cubin", "-o", tmp_path / "cubin", source], check=True)


@pytest.mark.parametrize("source", [pytest.param(source, id=source.stem) for source in SOURCES])
def test_a_kernel_knows_no_torch(source: Path) -> None:
    for file in (source, source.with_suffix(".cuh")):
        assert "#include <torch" not in file.read_text(encoding="utf-8")
