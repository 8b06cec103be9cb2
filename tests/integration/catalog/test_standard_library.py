"""The table of what differs in the standard library, held against real Pythons and against typeshed."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from ci_tools import catalog
from ci_tools.machine import python as interpreter
from tests.builders.library import holds
from tests.maintain import library_table

if TYPE_CHECKING:
    from ci_tools.model.versions import Python

TABLE = json.loads(catalog.STANDARD_LIBRARY.read_text(encoding="utf-8"))
# Its constants are those of the system's headers that Python was compiled with.
OF_HEADERS = frozenset({"_socket", "fcntl", "socket", "termios"})
PROGRAM = """\
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
found = {}
for module, names in json.load(sys.stdin).items():
    try:
        importlib.import_module(module)
        found[module] = {"": True}
    except ImportError:
        found[module] = {"": False}
        continue
    for name in filter(None, names):
        it = sys.modules[module]
        for part in name.split("."):
            it = getattr(it, part, found)
        found[module][name] = it is not found
sys.__stdout__.write("\\n" + json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize("python", [python for python in catalog.load().pythons if not python.free_threaded], ids=str)
def test_a_python_has_what_the_table_says(python: Python) -> None:
    program = interpreter.find(python, os.environ)
    if program is None:
        pytest.skip(f"no Python {python} is here")
    ended = subprocess.run(
        [program, "-S", "-c", PROGRAM], input=json.dumps(TABLE), capture_output=True, text=True, check=True
    )
    found = json.loads(ended.stdout.splitlines()[-1])
    wrong = [
        f"{module}.{name}: {names.get(name)} in the table"
        for module, names in TABLE.items()
        for name, there in found[module].items()
        if there != holds(names.get(name, ""), "linux", str(python)) and not (name and module in OF_HEADERS)
    ]
    assert not wrong


@pytest.mark.long
def test_the_table_is_what_typeshed_says() -> None:
    assert library_table.read_table() == TABLE
