"""Types of the backend readers: the facts of a cell that they need, and the facts that they find."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple

from packaging.specifiers import SpecifierSet

from ci_tools.catalog import PlatformFacts
from ci_tools.formats.binaries.magic import name_systems
from ci_tools.model.evidence import PURE_TAG, Binding, CellEvidence, Extensions, PythonApi, TorchAbi
from ci_tools.model.platforms import Cell
from ci_tools.model.versions import Minor, Python, admits, parse_or_all
from ci_tools.source.files import NOT_PACKED, Tree
from ci_tools.source.includes import SourceLine
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.syntax import parse_module

COMPILERS = re.compile(  # packages that compile, some of them Python itself
    r"cffi|cmake|cython|maturin|meson(-python)?|mypyc?|nanobind|ninja|nuitka|py-?build-?cmake|pybind11|pythran"
    r"|scikit-build(-core)?|scons|setuptools-(golang|rust)|sip|swig|torch|ziglang|zig"
)
FORCED = "whatever the request says"  # the end of a warning about architectures that files set


TAGS = {"linux": ("linux", "manylinux", "musllinux"), "macos": ("macosx",), "windows": ("win",)}  # how theirs begin


class CellFacts(NamedTuple):
    """The platform of a cell's wheel: its system (linux, macos, windows), its machine and its Python."""

    os: str
    machine: str  # as wheel tags spell it
    python: Python


class Forced(NamedTuple):
    """GPU architectures that the project itself sets, in its own spelling, and their place."""

    archs: str
    where: str


class Read(NamedTuple):
    """The facts that a backend's configuration gives about a cell's build, each with `file:line: why`."""

    extensions: Extensions
    where: str
    python_api: PythonApi
    torch: TorchAbi | None = None  # set where no C or C++ header would show it
    archs: tuple[Forced, ...] = ()
    unsupported: str = ""  # why the backend would refuse to build
    warnings: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()  # folders whose sources no target of the build compiles
    pure_tag: str = PURE_TAG  # the interpreter tag of a wheel that binds to no Python ABI
    ships: tuple[str, ...] = ()  # compiled files of the source that are in the wheel as they are
    tagged: tuple[str, ...] = ()  # platforms that its build writes into the tag, on whatever machine it runs


def oldest(project: ProjectFile, lowest: Minor, *, free_threaded: bool = False) -> Minor | None:
    """Return the oldest requested and admitted Python from `lowest` up: its wheel serves all newer ones."""
    asked = [python for python in project.request.pythons if python.free_threaded == free_threaded]
    specifier = requires_python(project)
    return min((one.version for one in asked if one.version >= lowest and admits(specifier, one.version)), default=None)


def requires_python(project: ProjectFile) -> SpecifierSet:
    """Return the Pythons that `[project]` admits: all if it has no `requires-python`, or an invalid one."""
    return parse_or_all(project.text("project", "requires-python"))


# ---------------------------------------------------------------- compiled files in the source

# Top-level folders of a project that no backend packs unless it is configured to.
MAY_SHIP = "a compiled file, which the wheel may contain"


def fits_platform(tags: str, os: str, machine: str) -> bool:
    """Whether a wheel with these platform tags, joined by dots, is for a system and a machine."""
    ends = (f"_{machine}", "_universal2")
    return any(tag.startswith(TAGS[os]) and tag.endswith(ends) for tag in tags.split(".")) or tags in {"any", ""}


def explain_foreign(tree: Tree, found: Read, facts: PlatformFacts) -> str:
    """Return why a wheel is of no use to a platform, by its tag or the compiled files that it may ship; "" if it is."""
    if found.tagged and not any(fits_platform(tags, facts.os, facts.machine) for tags in found.tagged):
        return f"its wheel is tagged {found.tagged[0]} ({found.where.partition(':')[0]})"
    ships = found.ships or [found.where.partition(":")[0]] * found.where.endswith(MAY_SHIP)
    whose: dict[str, tuple[str, ...]] = {}
    for name in ships:
        with (tree.root / name).open("rb") as file:
            whose[name] = name_systems(file)
    if not whose or any(not systems or f"{facts.os} {facts.machine}" in systems for systems in whose.values()):
        return ""
    return f"its wheel may ship {ships[0]}, which is for {', '.join(whose[ships[0]])}"


def select_binaries(tree: Tree, folder: str, told: str = "") -> Iterator[str]:
    """Yield the compiled files, by their first bytes, that a wheel of the project in `folder` may hold.

    `told` is the text of the project's packing settings: a folder that it names is packed.
    """
    for name in tree.binaries:
        path = PurePosixPath(name)
        if path.is_relative_to(folder or "."):
            top = path.relative_to(folder or ".").parts[0]
            if not top.startswith(".") and (top not in NOT_PACKED or top in told):
                yield name


def ship(project: ProjectFile, where: str) -> tuple[Extensions, str]:
    """Return NONE for a build that compiles nothing, with the reason `where`, or UNKNOWN if it may ship a binary."""
    for binary in select_binaries(project.tree, project.request.subdirectory):
        return Extensions.UNKNOWN, f"{binary}:1: {MAY_SHIP}"
    return Extensions.NONE, where


# ---------------------------------------------------------------- a declared tag

# bdist_wheel names the wheel by that setting whatever else the build does. Whether its libraries keep to it is for the
# audit, which reads their symbols (abi3audit).
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
