"""The table of what differs in the standard library, held against real Pythons and against typeshed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ci_tools import catalog
from ci_tools.machine import python as interpreter
from ci_tools.model.versions import Python
from ci_tools.observe.inside.standard_library.values import KNOWN_IN
from tests.builders.library import holds
from tests.maintain import library_table

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


# Differs between Pythons, and none decides what is built: of this machine, of Python's own inside, or the same numbers
# under another class.
NEVER_ASKED = {"argv", "base_exec_prefix", "base_prefix", "exec_prefix", "prefix", "PREFIXES", "USER_SITE", "filters"}
INSIDE = {"calendar", "copyreg", "http.client", "linecache", "multiprocessing.connection", "ntpath", "pickle", "posix",
          "pydoc_data", "sre_compile", "sre_constants", "sre_parse", "symtable", "sys", "typing", "unittest.mock",
          "venv"}  # fmt: skip
CONSTANTS = """\
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
PLAIN = (bool, int, float, str, bytes, type(None))
def shown(value, depth=4):
    if isinstance(value, dict):
        value = [*map(list, value.items())]
    if depth and isinstance(value, (frozenset, list, set, tuple)):
        return sorted(str(shown(each, depth - 1)) for each in value)
    return repr(value) if isinstance(value, PLAIN) else type(value).__name__
found = {}
for name in json.load(sys.stdin):
    try:
        module = importlib.import_module(name)
    except BaseException:  # a test of Python's own may end it
        continue
    kinds = (*PLAIN, frozenset, list, set, tuple, dict)
    public = getattr(module, "__all__", vars(module))
    plain = {key: value for key, value in vars(module).items() if isinstance(value, kinds) and key in public}
    found[name] = {key: shown(value) for key, value in plain.items() if not key.startswith("_")}
sys.__stdout__.write("\\n" + json.dumps(found))
"""


@pytest.mark.slow
def test_a_constant_that_differs_between_pythons_is_known() -> None:
    programs = filter(None, (interpreter.find(one, os.environ) for one in catalog.load().pythons))
    modules = {*sys.stdlib_module_names, "urllib.parse", "xml.parsers.expat", "importlib.util", "http.client"}
    asked = json.dumps(sorted(modules - INSIDE - {"antigravity", "this"}))
    ended = [
        subprocess.run([program, "-I", "-S", "-c", CONSTANTS], input=asked, capture_output=True, text=True, check=True)
        for program in programs
    ]
    tables = [json.loads(one.stdout.splitlines()[-1]) for one in ended]
    known = {(module, name) for module, names in KNOWN_IN[""].items() for name in names.split()}
    values: dict[tuple[str, str], set[str]] = {}
    for table in tables:
        for module, names in table.items():
            for name, value in names.items():
                values.setdefault((module, name), set()).add(str(value))
    differs = {key for key, found in values.items() if len(found) > 1 and key[1] not in NEVER_ASKED}
    assert not {key for key in differs - known if not key[0].startswith("_")}
