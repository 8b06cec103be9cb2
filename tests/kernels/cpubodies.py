"""Build the CPU kernel as package/CMakeLists.txt does, with every body as an operator of its own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import torch

from tests.builders.compilers import CXX, compile_cxx

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "kernels" / "bf16i4bf16_rowwise"
BINDING = Path(__file__).parent / "host" / "cpu_bodies.cpp"
TORCH = Path(torch.__file__).parent

BUILT_ALREADY = "AO_CPU_BODIES"  # in the environment: a library that another run built with options of its own

# What /proc/cpuinfo must list for a body to run.
NEEDED = {
    "plain": set[str](),
    "avx2": {"avx2", "fma"},
    "avx512": {"avx512f", "avx512bw", "avx512dq", "avx512vl"},
    "avx512_bf16": {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16"},
}


def sources() -> tuple[Path, ...]:
    return tuple(KERNEL / "cpu" / f"{name}.cpp" for name in NEEDED)


def has(name: str) -> bool:
    """Whether this machine runs a body."""
    listed = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return NEEDED[name] <= set(listed[1].split() if listed else ())


def instructions(name: str) -> list[str]:
    """The compiler's options for a body, as the package's build has them."""
    text = (ROOT / "package" / "cmake" / "Instructions.cmake").read_text(encoding="utf-8")
    found = dict(re.findall(r"^set\(INSTRUCTIONS_(\w+) (.*)\)$", text, re.MULTILINE))
    return re.sub(r"\$\{INSTRUCTIONS_(\w+)\}", lambda other: found[other[1]], found.get(name, "")).split()


def compile_body(source: Path, folder: Path, *options: str) -> Path:
    target = folder / f"{source.stem}.o"
    common = ["-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", *options]
    includes = [f"-I{KERNEL}", "-isystem", str(TORCH / "include"), "-DTORCH_TARGET_VERSION=0x020a000000000000"]
    return compile_cxx(source, target, *common, *instructions(source.stem), *includes)


def build(folder: Path, *options: str, binding: Path = BINDING, name: str = "libao_cpu_bodies.so") -> Path:
    """Return a library of all bodies."""
    library = folder / name
    objects = [compile_body(source, folder, *options) for source in (*sources(), binding)]
    link = [f"-L{TORCH / 'lib'}", "-ltorch_cpu", "-Wl,-Bsymbolic"]
    subprocess.run([CXX, "-shared", *options, *objects, *link, "-o", library], check=True)
    return library


def build_wheels_library(folder: Path, *options: str) -> Path:
    """Return the library that a wheel has."""
    return build(folder, *options, binding=KERNEL / "cpu" / "binding.cpp", name="libao_kernels_cpu.so")
