"""What one Python's build compiled serves the next, whose packages are in another folder, to the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from ci_tools.build.units.store import UnitStore
from ci_tools.machine import python as interpreter
from ci_tools.model.versions import Python
from tests.builders.sources import write
from tests.builders.units import open_units

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")]

HEADER = """\
#ifdef __CUDACC__
__host__ __device__
#endif
inline const char* place() { return __FILE__; }
"""
USES = "#include <c10/h.h>\nconst char* where() { return place(); }\n"
ASSERTS = f"{USES}__global__ void k(const char** x) {{ *x = place(); }}\n"  # as TORCH_CHECK and CUDA_KERNEL_ASSERT
ASKS = "#include <Python.h>\nint version = PY_MINOR_VERSION;\n"
TAKES = "#include <Python.h>\nPyObject* same(PyObject* one) { return one; }\n"  # -g tells where its struct is declared


def find_pythons() -> list[tuple[str, Path]]:
    found = [(name, interpreter.find(Python.parse(name), os.environ)) for name in ("3.10", "3.11", "3.12", "3.13")]
    pythons = [(name, path) for name, path in found if path]
    return pythons[:2] if pythons[1:] else pytest.skip("needs two Pythons")


def compile_for(
    python: tuple[str, Path], source: str, scratch: Path, store: UnitStore | None, toolkit: Path | None = None
) -> tuple[bytes, str]:
    """Compile a source with torch's headers and Python's, as a build for this Python does."""
    name, program = python
    shutil.rmtree(scratch / "env", ignore_errors=True)
    site = f"env/lib/python{name}/site-packages/torch/include"
    words = ("nvcc", "-arch=sm_90", "a.cu") if toolkit else ("g++", "-g", "a.cpp")
    write(scratch, {f"source/{words[-1]}": source, f"{site}/c10/h.h": HEADER})
    time.sleep(0.02)
    asked = "import sysconfig; print(sysconfig.get_path('include'))"
    with open_units(scratch, store, toolkit, program) as units:
        include = units.run(program, "-c", asked).stdout.strip()
        return units.compile(*words, f"-I{scratch / site}", f"-I{include}")


USERS = [pytest.param(USES, "unchanged", id="torch"), pytest.param(ASKS, "compiled", id="Python")]


@pytest.mark.parametrize(("source", "how"), USERS)
def test_the_next_python_takes_what_reads_nothing_of_python(source: str, how: str, tmp_path: Path) -> None:
    first, second = find_pythons()
    store = UnitStore(folder=tmp_path / "store")
    compile_for(first, source, tmp_path, store)
    assert compile_for(second, source, tmp_path, store) == (compile_for(second, source, tmp_path, None)[0], how)


def move(python: Path, folder: Path) -> Path:
    """Return a program of the same Python that finds itself, and its headers, in another folder."""
    asked = "import sys; print(sys.base_prefix)"
    prefix = Path(subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip())
    (folder / "bin").mkdir(parents=True)
    for name in ("include", "lib"):
        (folder / name).symlink_to(prefix / name)
    return Path(shutil.copy(python.resolve(), folder / "bin/python"))


def test_a_python_in_another_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    (name, python), _ = find_pythons()
    moved, store = (name, move(python, tmp_path / "moved")), UnitStore(folder=tmp_path / "store")
    made, _ = compile_for((name, python), TAKES, tmp_path, store)
    assert compile_for(moved, TAKES, tmp_path, store) == (made, "unchanged")
    assert compile_for(moved, TAKES, tmp_path, None)[0] == made


@pytest.mark.long
def test_a_kernel_that_names_a_header_of_torch_is_the_next_python_s(cuda_home: Path, tmp_path: Path) -> None:
    first, second = find_pythons()
    store = UnitStore(folder=tmp_path / "store")
    made = compile_for(first, ASSERTS, tmp_path, store, cuda_home)[0]
    assert compile_for(second, ASSERTS, tmp_path, store, cuda_home) == (made, "unchanged")
    assert compile_for(second, ASSERTS, tmp_path, None, cuda_home)[0] == made
