"""What one Python's build compiled serves the next, whose packages are in another folder, to the same bytes."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from ci_tools.build.units.store import UnitStore
from ci_tools.machine import python as interpreter
from ci_tools.model.versions import Python
from tests.builders.sources import write
from tests.builders.units import open_units

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")]

HEADER = 'inline const char* place() { return __FILE__ ":%s"; }\n'
USES = "#include <c10/h.h>\nconst char* where() { return place(); }\n"
ASKS = "#include <Python.h>\nint version = PY_MINOR_VERSION;\n"


def find_pythons() -> list[tuple[str, Path]]:
    found = [(name, interpreter.find(Python.parse(name), os.environ)) for name in ("3.10", "3.11", "3.12", "3.13")]
    pythons = [(name, path) for name, path in found if path]
    return pythons[:2] if pythons[1:] else pytest.skip("needs two Pythons")


def compile_for(python: tuple[str, Path], source: str, scratch: Path, store: UnitStore | None) -> tuple[bytes, str]:
    """Compile a source with torch's headers and Python's, as a build for this Python does."""
    name, program = python
    shutil.rmtree(scratch / "env", ignore_errors=True)
    site = f"env/lib/python{name}/site-packages/torch/include"
    write(scratch, {"source/a.cpp": source, f"{site}/c10/h.h": HEADER % "1"})
    time.sleep(0.02)
    asked = "import sysconfig; print(sysconfig.get_path('include'))"
    with open_units(scratch, store, python=program) as units:
        include = units.run(program, "-c", asked).stdout.strip()
        return units.compile("g++", "-g", f"-I{scratch / site}", f"-I{include}", "a.cpp")


USERS = [pytest.param(USES, "unchanged", id="torch"), pytest.param(ASKS, "compiled", id="Python")]


@pytest.mark.parametrize(("source", "how"), USERS)
def test_the_next_python_takes_what_reads_nothing_of_python(source: str, how: str, tmp_path: Path) -> None:
    first, second = find_pythons()
    store = UnitStore(folder=tmp_path / "store")
    compile_for(first, source, tmp_path, store)
    assert compile_for(second, source, tmp_path, store) == (compile_for(second, source, tmp_path, None)[0], how)
