from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.compilers import run_nvcc

KERNELS = Path(__file__).parents[2] / "kernels"
FILES = sorted(KERNELS.glob("*/*.cuh"))
SOURCES = [pytest.param(source, id=source.stem) for source in sorted(KERNELS.glob("*/*.cu"))]
TORCH_FREE = [pytest.param(file, id=file.name) for file in sorted(KERNELS.glob("*/*.cu*"))]


@pytest.fixture
def nvcc(cuda_home: Path) -> Path:
    return cuda_home / "bin" / "nvcc"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_90", "sm_100"])
@pytest.mark.parametrize("source", SOURCES)
def test_a_kernel_compiles_without_warnings(nvcc: Path, source: Path, architecture: str, tmp_path: Path) -> None:
    strict = ("-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra", "-std=c++17")
    run_nvcc(nvcc, tmp_path / "cubin", [source], *strict, "-arch", architecture, "-cubin", included=FILES)


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES)
def test_a_kernel_compiles_for_an_older_gpu_where_it_will_not_run(nvcc: Path, source: Path, tmp_path: Path) -> None:
    """Whoever adds 8.0 to TORCH_CUDA_ARCH_LIST gets a library whose kernels are never launched there."""
    run_nvcc(nvcc, tmp_path / "cubin", [source], "-std=c++17", "-arch", "sm_80", "-cubin", included=FILES)


@pytest.mark.parametrize("file", TORCH_FREE)
def test_a_kernel_knows_no_torch(file: Path) -> None:
    assert "#include <torch" not in file.read_text(encoding="utf-8")
