from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "kernels"
SOURCES = [pytest.param(source, id=source.stem) for source in sorted(KERNELS.glob("*/*.cu"))]
TORCH_FREE = [pytest.param(file, id=file.name) for file in sorted(KERNELS.glob("*/*.cu*"))]


@pytest.fixture
def nvcc(cuda_home: Path) -> Path:
    return cuda_home / "bin" / "nvcc"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_kernel_compiles_without_warnings(nvcc: Path, source: Path, architecture: str, tmp_path: Path) -> None:
    strict = ["-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra", "-std=c++17"]
    subprocess.run([nvcc, *strict, "-arch", architecture, "-cubin", "-o", tmp_path / "cubin", source], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_a_kernel_compiles_for_an_older_gpu_where_it_will_not_run(nvcc: Path, source: Path, tmp_path: Path) -> None:
    """Whoever adds 8.0 to TORCH_CUDA_ARCH_LIST gets a library whose kernels are never launched there."""
    subprocess.run([nvcc, "-std=c++17", "-arch", "sm_80", "-cubin", "-o", tmp_path / "cubin", source], check=True)


@pytest.mark.parametrize("file", TORCH_FREE)
def test_a_kernel_knows_no_torch(file: Path) -> None:
    assert "#include <torch" not in file.read_text(encoding="utf-8")
