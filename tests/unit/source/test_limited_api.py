"""What a source uses that the limited API does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.versions import Minor
from ci_tools.source.files import tree_at
from ci_tools.source.includes import Includes
from ci_tools.source.python_api import find_limit, read_limit, uses
from tests.builders.sources import write


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("Py_INCREF(o); PyLong_FromLong(1); PyList_Check(o); Py_RETURN_NONE;", [], id="of-it"),
        pytest.param("PyTuple_GET_ITEM(t, 0);", ["a.c:1: PyTuple_GET_ITEM None"], id="a-macro-that-reads-a-structure"),
        pytest.param("\nPyObject_GetBuffer(o, b, 0);", ["a.c:2: PyObject_GetBuffer 3.11"], id="of-it-since-3.11"),
        pytest.param("static PyTypeObject T = {0};", ["a.c:1: PyTypeObject T None"], id="a-static-type"),
        pytest.param("_PyLong_Sign(o);", ["a.c:1: _PyLong_Sign None"], id="private"),
        pytest.param("// PyTuple_GET_ITEM(t, 0)\n/* _PyLong_Sign(o) */", [], id="in-a-comment"),
        pytest.param("#if PY_MAJOR_VERSION < 3\n_PyA();\n#else\n_PyB();\n#endif", ["a.c:4: _PyB None"], id="python-2"),
        pytest.param("#ifdef IS_PY3K\n_PyA();\n#elif X\n_PyB();\n#else\n_PyC();\n#endif", ["a.c:2: _PyA None"],
                     id="but-not-3"),
        pytest.param("#ifndef PY3\nx->tp_a;\n#if X\n_PyA();\n#endif\n#endif\n_PyB();", ["a.c:7: _PyB None"],
                     id="python-2-nested"),
        pytest.param("#if !defined(PY2) && X\n_PyA();\n#else\n_PyB();\n#endif",
                     ["a.c:2: _PyA None", "a.c:4: _PyB None"], id="python-2-or-more"),
        pytest.param('#include "b.h"\n', ["b.h:1: PyCell_Check None"], id="in-a-header-of-its-own"),
    ],
)  # fmt: skip
def test_a_source_shows_what_the_limited_api_lacks(tmp_path: Path, text: str, found: list[str]) -> None:
    tree = tree_at(write(tmp_path / "a", {"a.c": text, "b.h": "PyCell_Check(o)"}), {})
    lacking = uses(Includes(tree), ["a.c"], Minor(3, 10))
    assert [f"{use.place}: {use.name} {use.since}" for use in lacking] == found


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        pytest.param("#define Py_LIMITED_API 0x030b0000\n#include <Python.h>\n", "3.11", id="before"),
        pytest.param("#define Py_LIMITED_API 3\n#include <Python.h>\n", "None", id="without-a-version"),
        pytest.param('#include "limit.h"\n#include <Python.h>\n', "3.12", id="in-a-header"),
        pytest.param('#include "python.h"\n#define Py_LIMITED_API 0x030b0000\n', "", id="after-a-header-that-has-it"),
        pytest.param("#include <Python.h>\n#define Py_LIMITED_API 0x030b0000\n", "", id="after"),
        pytest.param("/* #define Py_LIMITED_API 3 */\n#include <Python.h>\n", "", id="in-a-comment"),
        pytest.param("#ifdef A\n#define Py_LIMITED_API 3\n#endif\n#include <Python.h>\n", "", id="in-a-branch"),
        pytest.param("#ifndef Py_LIMITED_API\n#define Py_LIMITED_API 0x030a0000\n#endif\n#include <Python.h>\n", "3.10",
                     id="unless-it-is-defined"),
        pytest.param("#define Py_LIMITED_API 3\n#undef Py_LIMITED_API\n#include <Python.h>\n", "", id="undone"),
        pytest.param("#undef Py_LIMITED_API\n#define Py_LIMITED_API 0x030b0000\n#include <Python.h>\n", "3.11",
                     id="anew"),
        pytest.param("#include <Python.h>\n#undef Py_LIMITED_API\n#define Py_LIMITED_API 3\n", "", id="undone-after"),
    ],
)  # fmt: skip
def test_a_limited_api_counts_only_before_python_s_header(tmp_path: Path, text: str, limit: str) -> None:
    headers = {"limit.h": "#pragma once\n#define Py_LIMITED_API 0x030C0000\n", "python.h": "#include <Python.h>\n"}
    found = find_limit(Includes(tree_at(write(tmp_path / "a", {"a.c": text, **headers}), {})), ["a.c"])
    assert (str(found.lowest) if found else "") == limit


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        pytest.param("#include <Python.h>\n#undef Py_LIMITED_API\n", "3.10", id="undone-after"),
        pytest.param("#undef Py_LIMITED_API\n#include <Python.h>\n", "", id="undone"),
        pytest.param("#ifndef Py_LIMITED_API\n#define Py_LIMITED_API 3\n#endif\n#include <Python.h>\n", "3.10",
                     id="kept"),
        pytest.param("#undef Py_LIMITED_API\n#define Py_LIMITED_API 0x030c0000\n#include <Python.h>\n", "3.12",
                     id="anew"),
    ],
)  # fmt: skip
def test_a_file_can_undo_the_limited_api_of_a_flag(tmp_path: Path, text: str, limit: str) -> None:
    includes = Includes(tree_at(write(tmp_path / "a", {"a.c": text}), {}))
    found = find_limit(includes, ["a.c"], read_limit("-DPy_LIMITED_API=0x030A0000"))
    assert (str(found.lowest) if found else "") == limit
