from __future__ import annotations

import io
import re
import subprocess
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ci_tools.formats.fatbinary import (
    Code,
    Image,
    images,
    units,
)
from tests.builders.compilers import fetch_cuda_program, run_nvcc

if TYPE_CHECKING:
    from pathlib import Path


def kernels(content: bytes) -> list[dict[str, list[str] | None]]:
    """Return, for each unit, the kernels of each image by name."""
    found = units(io.BytesIO(content))
    return [{str(code.image): code.kernels and sorted(code.kernels) for code in unit.codes} for unit in found]


# ---------------------------------------------------------------- nvcc and cuobjdump

KERNELS = """
__global__ void scale(float* x) { *x *= 2; }
template <typename T> __global__ void shift(T* x) { *x += 1; }
static __global__ void hidden(float* x) { *x = 3; }
namespace { __global__ void nameless(float* x) { *x = 4; } }
void go(float* x, int* y) {
  scale<<<1, 1>>>(x); shift<<<1, 1>>>(x); shift<<<1, 1>>>(y); hidden<<<1, 1>>>(x); nameless<<<1, 1>>>(x);
}
"""
SECOND = "__global__ void other(float* x) { *x = 5; } void go_on(float* x) { other<<<1, 1>>>(x); }"
DEVICE = "__device__ float twice(float x) { return 2 * x; }"
CALLER = "__device__ float twice(float); __global__ void k(float* x) { *x = twice(*x); } void go() { k<<<1, 1>>>(0); }"
UNEVEN = """
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr int width = 1;
#else
constexpr int width = 8;
#endif
template <int size> __global__ void fill(float* x) { for (int i = 0; i < size; ++i) x[i] = 1; }
void go(float* x) { fill<width><<<1, 1>>>(x); }
"""
EVERY_KIND = ("compute_90:[sm_90,compute_90]", "compute_90a:sm_90a", "compute_100f:sm_100f", "compute_120a:sm_120a")
EVERY_IMAGE = {"sm_90", "compute_90", "sm_90a", "sm_100f", "sm_120a"}


@pytest.fixture(scope="module")
def nvcc(cuda_home: Path) -> Path:
    return cuda_home / "bin" / "nvcc"


@pytest.fixture(scope="module")
def cuobjdump() -> Path:
    return fetch_cuda_program("cuobjdump", ">=13.2")


def compiled(nvcc: Path, out: Path, source: str, *options: str) -> Path:
    """Run nvcc on one source file, and return what it wrote."""
    file = out.with_suffix(".cu")
    file.write_text(source)
    return linked(nvcc, out, [file], *options)


def linked(nvcc: Path, out: Path, files: list[Path], *options: str) -> Path:
    run_nvcc(nvcc, out, files, "-Xcompiler", "-fPIC", *options)
    return out


def gencode(*pairs: str) -> list[str]:
    return [f"-gencode=arch={virtual},code={real}" for virtual, _, real in (pair.partition(":") for pair in pairs)]


def ours(file: Path) -> Counter[Code]:
    """Every image we read, with its kernels."""
    with file.open("rb") as stream:
        return Counter(code for found in units(stream) for code in found.codes)


def theirs(cuobjdump: Path, file: Path) -> Counter[Code]:
    """Every image cuobjdump lists with its kernels."""
    found = Counter[Code]()
    for option, kind, name in (("-symbols", "elf", r" ENTRY +(\S+)"), ("-ptx", "ptx", r"\.entry (\w+)")):
        command = [str(cuobjdump), "-all", option, str(file)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for part in re.split(r"(?=^Fatbin (?:elf|ptx) code:$)", text, flags=re.MULTILINE):
            if part.startswith(f"Fatbin {kind}"):
                arch = re.search(r"^arch = sm_(\w+)$", part, re.MULTILINE)
                image = Image({"elf": "sm", "ptx": "compute"}[kind], arch[1] if arch else "")
                found[Code(image, frozenset(re.findall(name, part)))] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "relocatable"),
    [
        *(pytest.param(mode, "false", id=mode) for mode in ("size", "speed", "balance", "none", "default")),
        pytest.param("size", "true", id="size-and-device-linked"),
    ],
)
def test_what_nvcc_put_in_is_read_back(
    nvcc: Path, cuobjdump: Path, tmp_path: Path, mode: str, relocatable: str
) -> None:
    options = [f"-rdc={relocatable}", f"--compress-mode={mode}", *gencode(*EVERY_KIND)]
    few = options if relocatable == "true" else [*options[:2], *gencode("compute_90:[sm_90,compute_90]")]
    objects = [
        compiled(nvcc, tmp_path / "one.o", KERNELS, "-c", *options),
        compiled(nvcc, tmp_path / "two.o", SECOND, "-c", *few),
    ]
    out = linked(nvcc, tmp_path / "out.so", objects, "-shared", *options)
    with out.open("rb") as stream:
        assert set(map(str, images(stream))) == EVERY_IMAGE
    assert ours(out) == theirs(cuobjdump, out)
    assert any(len(code.kernels or ()) == 5 for code in ours(out))


@pytest.mark.slow
def test_device_code_of_two_files_is_linked(nvcc: Path, cuobjdump: Path, tmp_path: Path) -> None:
    options = ["-rdc=true", *gencode("compute_90:[sm_90,compute_90]", "compute_100:sm_100")]
    objects = [
        compiled(nvcc, tmp_path / f"{number}.o", source, "-c", *options)
        for number, source in enumerate((DEVICE, CALLER))
    ]
    out = linked(nvcc, tmp_path / "out.so", objects, "-shared", *options)
    static = linked(nvcc, tmp_path / "out.a", objects, "-lib", *options)
    assert ours(out) == theirs(cuobjdump, out)
    assert ours(static) == theirs(cuobjdump, static)
    with out.open("rb") as stream:
        assert {found.where.partition(",")[0] for found in units(stream)} == {".nv_fatbin", "__nv_relfatbin"}


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["90a", "100f", "120"])
def test_a_cubin_and_ptx_say_what_they_are_for(nvcc: Path, tmp_path: Path, arch: str) -> None:
    cubin = compiled(nvcc, tmp_path / "one.cubin", SECOND, "-cubin", f"-arch=sm_{arch}")
    ptx = compiled(nvcc, tmp_path / "two.ptx", SECOND, "-ptx", f"-arch=compute_{arch}")
    assert kernels(cubin.read_bytes()) == [{f"sm_{arch}": ["_Z5otherPf"]}]
    assert kernels(ptx.read_bytes()) == [{f"compute_{arch}": ["_Z5otherPf"]}]


@pytest.mark.slow
def test_a_kernel_that_one_architecture_lacks_is_seen(nvcc: Path, tmp_path: Path) -> None:
    archs = gencode("compute_80:sm_80", "compute_90:sm_90")
    out = compiled(nvcc, tmp_path / "one.fatbin", UNEVEN, "-fatbin", *archs)
    assert kernels(out.read_bytes()) == [{"sm_80": ["_Z4fillILi1EEvPf"], "sm_90": ["_Z4fillILi8EEvPf"]}]


@pytest.mark.slow
def test_code_for_the_link_time_optimiser_is_told_apart(nvcc: Path, tmp_path: Path) -> None:
    archs = gencode("compute_90:sm_90", "compute_120:lto_120")
    out = compiled(nvcc, tmp_path / "one.o", SECOND, "-dc", *archs)
    assert kernels(out.read_bytes()) == [{"sm_90": ["_Z5otherPf"], "lto_120": None}]
