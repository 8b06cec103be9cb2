"""What `--compress-mode=size` would save is foretold from device code that was compiled without it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools.formats.binaries.fatbinary import ImageSize, measure_images
from tests.builders.sources import write

KERNEL = """\
template <int N> __global__ void k(float* x) {
  for (int i = 0; i < N; ++i) x[i] = sinf(x[i]) * expf(x[i + N]);
}
template __global__ void k<9>(float*);
template __global__ void k<10>(float*);
"""
ARCHS = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90,compute_90]")


def compile_by(mode: str, cuda_home: Path, folder: Path) -> Mapping[str, ImageSize]:
    write(folder, {"k.cu": KERNEL})
    nvcc = [cuda_home / "bin" / "nvcc", *ARCHS, f"--compress-mode={mode}", "-c", "k.cu", "-o", f"{mode}.o"]
    subprocess.run(nvcc, cwd=folder, check=True)
    with (folder / f"{mode}.o").open("rb") as file:
        return measure_images(file)


@pytest.mark.long
def test_the_smallest_size_is_foretold(cuda_home: Path, tmp_path: Path) -> None:
    default, small = (compile_by(mode, cuda_home, tmp_path) for mode in ("default", "size"))
    assert {name: one.smallest for name, one in default.items()} == {name: one.smallest for name, one in small.items()}
    assert list(default) == ["sm_80", "sm_90", "compute_90"]
    assert sum(one.now for one in default.values()) > sum(one.now for one in small.values())
