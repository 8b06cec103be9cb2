"""The limited API that a project's settings declare for its wheel, where its build code is not understood.

bdist_wheel names the wheel by that setting whatever else the build does. Whether its libraries keep to it is for the
audit, which reads their symbols (abi3audit).
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ci_tools.model.evidence import Binding, Extensions, PythonApi
from ci_tools.model.versions import Minor
from ci_tools.source.includes import SourceLine
from ci_tools.source.syntax import parse_module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.model.cell import Cell
    from ci_tools.model.evidence import CellEvidence
    from ci_tools.source.project_file import ProjectFile

TAG = re.compile(r"cp3(\d{1,2})")
SECTION, NAME = "bdist_wheel", "py_limited_api"
# Setuptools reads the commands' options there, too (setuptools/config/pyprojecttoml.py, _set_global_opts).
TABLE = ("tool", "distutils", SECTION)


def apply_declared_tag(found: CellEvidence, cell: Cell, project: ProjectFile) -> CellEvidence:
    """Return the evidence of a build that is not understood with the limited API that its project declares, if any.

    Free-threaded Python has no abi3: setuptools refuses the setting there.
    """
    if found.extensions is not Extensions.UNKNOWN or cell.python.free_threaded:
        return found
    api = _read_declared_api(project)
    return replace(found, python_api=api) if api and found.python_api.kind is Binding.UNKNOWN else found


def _read_declared_api(project: ProjectFile) -> PythonApi | None:
    """Return the Python API that setup.cfg, pyproject.toml or setup.py declares; None if they declare none."""
    key = next((key for key in (NAME, NAME.replace("_", "-")) if key in project.table(*TABLE)), "")  # either counts
    where = project.place(*TABLE, key) if key else project.place_of_setting(NAME)
    text = str(project.value(*TABLE, key)) if key else project.setting(SECTION, NAME)
    if not text and (found := _read_literal(project)):
        where, text = found
    match = TAG.fullmatch(text.strip())
    if match is None:
        return None
    return PythonApi(Binding.STABLE, f"{where}: {SECTION}'s {NAME} is {text.strip()}", Minor(3, int(match[1])))


def _read_literal(project: ProjectFile) -> tuple[SourceLine, str] | None:
    """Return the value of `{"bdist_wheel": {"py_limited_api": …}}` in setup.py and its place; None if it has none."""
    file = project.path("setup.py")
    module = parse_module(project.tree.text(file) if file in project.tree.names else "")
    if module is None:
        return None
    tables = [(key, value) for node in ast.walk(module) for key, value in _items(node)]
    inner = (value for key, value in tables if key == SECTION)
    found = ((value.lineno, value.value) for table in inner for key, value in _items(table)
             if key == NAME and isinstance(value, ast.Constant))  # fmt: skip
    return next(((SourceLine(file, line), str(text)) for line, text in found), None)


def _items(node: ast.AST) -> Iterator[tuple[object, ast.expr]]:
    """Yield the keys and values that a dictionary in Python's syntax states."""
    if isinstance(node, ast.Dict):
        yield from ((getattr(key, "value", None), value) for key, value in zip(node.keys, node.values, strict=True))
