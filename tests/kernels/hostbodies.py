"""Build the CUDA kernels' bodies for this machine: one object, with which whatever calls them is linked."""

from __future__ import annotations

from pathlib import Path

from tests.builders.compilers import compile_cxx

HOST = Path(__file__).parent / "host"
KERNEL = Path(__file__).parents[2] / "kernels" / "bf16i4bf16_rowwise"
INCLUDES = (f"-I{KERNEL}", f"-I{HOST}")
STRICT = ("-std=c++17", "-Wall", "-Wextra", "-Werror", *INCLUDES)
QUICK = ("-O1", "-fPIC")  # it compiles in two thirds of the time of -O2, and the tests run about as long


def compile_bodies(folder: Path, *options: str) -> Path:
    """Compile the bodies alone."""
    return compile_cxx(HOST / "bodies.cpp", folder / "bodies.o", *STRICT, *options)
