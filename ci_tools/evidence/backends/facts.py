"""What a backend's configuration depends on in a cell, and what it is found to say of that cell's build."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.evidence import PURE_TAG
from ci_tools.model.pep440 import parse_specifiers
from ci_tools.model.versions import admits

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from ci_tools.evidence.project_file import ProjectFile
    from ci_tools.model.evidence import Extensions, PythonApi, TorchAbi
    from ci_tools.model.versions import Minor, Python

__all__ = ["CellFacts", "Forced", "Read", "oldest", "requires_python"]


class CellFacts(NamedTuple):
    """The builder that a cell's wheel is for: its system (linux, macos, windows), its machine and its Python."""

    os: str
    machine: str  # as wheel tags spell it
    python: Python


class Forced(NamedTuple):
    """GPU architectures that the project itself sets, as it writes them, and where."""

    archs: str
    where: str


class Read(NamedTuple):
    """What a backend's configuration says of a cell's build, each with `file:line: why`."""

    extensions: Extensions
    where: str
    python_api: PythonApi
    torch: TorchAbi | None = None  # where no C or C++ header would show it
    archs: tuple[Forced, ...] = ()
    unsupported: str = ""  # why the backend would refuse to build
    warnings: tuple[str, ...] = ()
    pure_tag: str = PURE_TAG  # the interpreter tag of a wheel that is bound to no Python's ABI


def oldest(project: ProjectFile, lowest: Minor, *, free_threaded: bool = False) -> Minor | None:
    """Return the oldest Python from `lowest` up that is asked for and admitted: it builds what serves them all."""
    asked = [python for python in project.request.pythons if python.free_threaded == free_threaded]
    specifier = requires_python(project)
    return min((one.version for one in asked if one.version >= lowest and admits(specifier, one.version)), default=None)


def requires_python(project: ProjectFile) -> SpecifierSet:
    """Return the Pythons that `[project]` admits: all where it says nothing, or what is no specifier."""
    try:
        return parse_specifiers(project.text("project", "requires-python"))
    except ValueError:  # also more digits than Python converts
        return parse_specifiers("")
