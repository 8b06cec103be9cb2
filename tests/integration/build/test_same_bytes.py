"""nvcc makes the same object twice with the variables of a build, whatever is compiled beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.model.versions import Minor

pytestmark = pytest.mark.slow

# A value that is made when the library is loaded: its constructor is called after the file that nvcc generated.
SOURCE = "int next(); static int first = next(); __global__ void k(int* x) { *x = VALUE; } int get() { return first; }"
TOLD = CUDA.variables(Minor(13, 0))


class Compiler:
    """The nvcc of a toolkit, in a folder with one source."""

    def __init__(self, cuda_home: Path, folder: Path) -> None:
        self.nvcc, self.folder = cuda_home / "bin" / "nvcc", folder
        (folder / "fill.cu").write_text(f"{SOURCE}\n")

    def start(self, value: int, environ: Mapping[str, str] = TOLD) -> subprocess.Popen[bytes]:
        """Begin to compile the source for one value, into an object of its own."""
        command = [self.nvcc, "-arch=sm_90", f"-DVALUE={value}", "-c", "fill.cu", "-o", f"fill{value}.o"]
        return subprocess.Popen(command, cwd=self.folder, env={"PATH": "/usr/bin:/bin", **environ})

    def compile(self, *values: int, environ: Mapping[str, str] = TOLD) -> list[bytes]:
        """Return the objects of several values, compiled at the same time."""
        started = [self.start(value, environ) for value in values]
        assert [process.wait() for process in started] == [0] * len(values)
        return [(self.folder / f"fill{value}.o").read_bytes() for value in values]


@pytest.fixture(scope="module")
def compiler(cuda_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cuda_home, tmp_path_factory.mktemp("compiler"))


@pytest.fixture(scope="module")
def first(compiler: Compiler) -> bytes:
    return compiler.compile(1)[0]


def test_an_object_does_not_know_the_process_that_made_it(compiler: Compiler, first: bytes) -> None:
    (second,), (without,) = compiler.compile(1), compiler.compile(1, environ={})
    assert (first == second, b"tmpxft" in first, b"tmpxft" in without) == (True, False, True)


def test_objects_of_one_source_take_nothing_of_each_other(compiler: Compiler, first: bytes) -> None:
    alone = [first, *compiler.compile(2)]
    assert compiler.compile(1, 2) == alone
