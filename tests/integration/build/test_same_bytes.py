"""nvcc makes the same object twice with the variables of a build, and not without them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from ci_tools.build.builder import SAME_SYMBOLS
from ci_tools.model.platforms import AcceleratorKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# A value that is made when the library is loaded: its constructor is called after the file that nvcc generated.
SOURCE = "int next(); static int first = next(); __global__ void fill(int* x) { *x = 1; } int get() { return first; }\n"


@pytest.mark.slow
def test_an_object_does_not_know_the_process_that_made_it(cuda_home: Path, tmp_path: Path) -> None:
    source = tmp_path / "fill.cu"
    source.write_text(SOURCE)

    def compile_source(environ: Mapping[str, str]) -> bytes:
        nvcc = cuda_home / "bin" / "nvcc"
        command = [nvcc, "-arch=sm_90", "-c", source, "-o", tmp_path / "fill.o"]
        subprocess.run(command, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin", **environ})
        return (tmp_path / "fill.o").read_bytes()

    told = SAME_SYMBOLS[AcceleratorKind.CUDA]
    first, second = compile_source(told), compile_source(told)
    assert (first == second, b"tmpxft" in first, b"tmpxft" in compile_source({})) == (True, False, True)
