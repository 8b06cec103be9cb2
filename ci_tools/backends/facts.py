"""What a backend's configuration depends on in a cell, and what it is found to say of that cell's build."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.specifiers import parse_specifiers

if TYPE_CHECKING:
    from ci_tools.model import Extensions, Minor, Python, PythonApi, TorchAbi
    from ci_tools.projectfile import ProjectFile

__all__ = ["CellFacts", "Forced", "Read", "oldest"]


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


def oldest(project: ProjectFile, lowest: Minor, *, free_threaded: bool = False) -> Minor | None:
    """Return the oldest Python from `lowest` up that is asked for and admitted: it builds what serves them all."""
    asked = [python for python in project.request.pythons if python.free_threaded == free_threaded]
    return min((one.version for one in asked if one.version >= lowest and _admits(project, one)), default=None)


def _admits(project: ProjectFile, python: Python) -> bool:
    try:
        specifier = parse_specifiers(project.text("project", "requires-python"))
    except ValueError:  # also more digits than Python converts
        return True
    return any(specifier.contains(f"{python.version}.{patch}", prereleases=True) for patch in (0, 99))
