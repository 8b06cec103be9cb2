"""The table of torch's names, held against the torch that is installed here."""

from __future__ import annotations

import json
import os
from importlib import metadata
from typing import Any

import pytest

from ci_tools.catalog import TORCH_NAMES, load
from ci_tools.observe.inside.torch_names.table import MODULES, OTHERS, UNSURE, read_table
from tests.servers.prepared import TORCH, run_prepared

pytestmark = pytest.mark.slow  # it imports torch

TABLE = read_table(TORCH_NAMES.read_text(encoding="utf-8"))
# Modules whose place an object takes: it has all their names, and lists only its own.
PROXIES = frozenset(
    f"torch.backends{name}" for name in ("", ".cudnn", ".miopen", ".mkldnn", ".opt_einsum", ".quantized", ".xnnpack")
)
# The class is made, and listed, once somebody asks for it.
LATE = {"torch.utils.cpp_extension": {"BuildExtension"}}
# Sets are printed in any order.
UNORDERED = frozenset({"PYTORCH_RELEASES_CODE_CC"})
PROGRAM = """\
import importlib, inspect, json, sys, warnings
warnings.simplefilter("ignore")
import torch
def describe(value):
    kind = "c" if inspect.isclass(value) else "f" if inspect.isroutine(value) else "?"
    return {"kind": kind, "text": repr(value) if isinstance(value, (bool, dict, int, list, str, tuple)) else ""}
found = {}
for name, rows in json.loads(open(sys.argv[1]).read()).items():
    module = importlib.import_module(name)
    missing = object()
    values = {row: getattr(module, row, missing) for row in rows}
    found[name] = {"listed": dir(module), "rows": {row: None if value is missing else describe(value)
                                                  for row, value in values.items()}}
print(json.dumps(found))
"""


def installed() -> str:
    """Return the release that is installed; skip the test without one that the table has."""
    try:
        release = ".".join(metadata.version("torch").split(".")[:2])
    except metadata.PackageNotFoundError:
        pytest.skip("needs torch")
    return release if release in TABLE.releases else pytest.skip("needs a torch of the table")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the installed torch says of the names in the table: those of any release."""
    asked = {
        module: [name for name in names if name != OTHERS and "." not in name]
        for module, names in TABLE.names.items()
        if module and TABLE.said(installed(), MODULES, module)
    }
    names = tmp_path_factory.mktemp("names") / "asked.json"
    names.write_text(json.dumps(asked))
    ended = run_prepared(["-c", PROGRAM, str(names)], env=os.environ, program=TORCH)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    assert sum(len(one["rows"]) for one in found.values()) > 1500
    return found


def test_each_name_is_there_as_the_table_says(real: dict[str, Any]) -> None:
    release = installed()
    wrong = [
        f"{module}.{name}: {row!r}"
        for module, one in real.items()
        for name, said in one["rows"].items()
        if (row := TABLE.find(release, module, name)) != UNSURE and bool(row) != (said is not None)
    ]
    assert not wrong


def test_the_real_modules_have_no_names_but_those_in_the_table(real: dict[str, Any]) -> None:
    release = installed()
    for module, one in real.items():
        unknown = {name for name in one["listed"] if not TABLE.find(release, module, name)}
        assert not {name for name in unknown if not name.startswith("__")}, module


def test_the_names_that_a_module_lists_are_those_of_the_real_one(real: dict[str, Any]) -> None:
    release, compared = installed(), 0
    for module, one in real.items():
        if TABLE.said(release, module, OTHERS) or module in PROXIES:
            continue
        certain = {
            name for name in TABLE.list_names(release, module) or () if TABLE.said(release, module, name) != UNSURE
        }
        assert certain - {*one["listed"]} <= LATE.get(module, set()), module
        compared += len(certain)
    assert compared > 800


def test_functions_and_classes_are_such_and_constants_have_the_same_values(real: dict[str, Any]) -> None:
    release = installed()
    rows = [
        (f"{module}.{name}", TABLE.said(release, module, name), one["rows"][name])
        for module, one in real.items()
        for name in one["rows"]
    ]
    kinds = [row for row in rows if row[1] in {"c", "f"}]
    assert not [row for row in kinds if row[1] != row[2]["kind"]]
    assert len(kinds) > 500
    constants = [row for row in rows if row[1].startswith("=") and row[0].rpartition(".")[2] not in UNORDERED]
    assert not [row for row in constants if row[1] != f"={row[2]['text']}"]
    assert len(constants) > 30


def test_the_table_has_each_release_of_the_catalog() -> None:
    assert dict(TABLE.patches) == {str(version): release.patch for version, release in load().torch.items()}
