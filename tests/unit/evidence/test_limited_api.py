"""What a source uses that the limited API does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ci_tools.evidence.includes import Includes
from ci_tools.evidence.limited_api import uses
from ci_tools.evidence.source import tree_at
from ci_tools.model.versions import Minor
from tests.builders.sources import write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("Py_INCREF(o); PyLong_FromLong(1); PyList_Check(o); Py_RETURN_NONE;", [], id="of-it"),
        pytest.param("PyTuple_GET_ITEM(t, 0);", ["a.c:1: PyTuple_GET_ITEM None"], id="a-macro-that-reads-a-structure"),
        pytest.param("\nPyObject_GetBuffer(o, b, 0);", ["a.c:2: PyObject_GetBuffer 3.11"], id="of-it-since-3.11"),
        pytest.param("static PyTypeObject T = {0};", ["a.c:1: PyTypeObject T None"], id="a-static-type"),
        pytest.param("_PyLong_Sign(o);", ["a.c:1: _PyLong_Sign None"], id="private"),
        pytest.param("// PyTuple_GET_ITEM(t, 0)\n/* _PyLong_Sign(o) */", [], id="in-a-comment"),
        pytest.param('#include "b.h"\n', ["b.h:1: PyCell_Check None"], id="in-a-header-of-its-own"),
    ],
)  # fmt: skip
def test_a_source_shows_what_the_limited_api_lacks(tmp_path: Path, text: str, found: list[str]) -> None:
    tree = tree_at(write(tmp_path / "a", {"a.c": text, "b.h": "PyCell_Check(o)"}), {})
    lacking = uses(Includes(tree), ["a.c"], Minor(3, 10))
    assert [f"{use.place}: {use.name} {use.since}" for use in lacking] == found
