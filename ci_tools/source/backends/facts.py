"""Types of the backend readers: the facts of a cell that they need, and the facts that they find."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.evidence import PURE_TAG
from ci_tools.model.pep440 import parse_or_all
from ci_tools.model.versions import admits

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from ci_tools.model.evidence import Extensions, PythonApi, TorchAbi
    from ci_tools.model.versions import Minor, Python
    from ci_tools.source.project_file import ProjectFile


FORCED = "whatever the request says"  # the end of a warning about architectures that files set


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


def oldest(project: ProjectFile, lowest: Minor, *, free_threaded: bool = False) -> Minor | None:
    """Return the oldest requested and admitted Python from `lowest` up: its wheel serves all newer ones."""
    asked = [python for python in project.request.pythons if python.free_threaded == free_threaded]
    specifier = requires_python(project)
    return min((one.version for one in asked if one.version >= lowest and admits(specifier, one.version)), default=None)


def requires_python(project: ProjectFile) -> SpecifierSet:
    """Return the Pythons that `[project]` admits: all if it has no `requires-python`, or an invalid one."""
    return parse_or_all(project.text("project", "requires-python"))
