"""Searches all projects of an index for what fits one machine, by the finder's own data, as its page does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.index.finder.data import structure_call
from ci_tools.install import fatwheel_backend as backend

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ci_tools.index.finder.recipes import Maker

NO_LOCK: Mapping[str, Any] = {
    "cuda": None, "serves": [], "rocm": None, "xpu": False, "torch": None, "cxx11abi": None,
}  # fmt: skip
WHEEL = re.compile(r"[\w.+!]+(-[\w.+!]+){4,5}\.whl", re.ASCII)
LATE = re.compile(r"needs driver|no kernel|C\+\+ ABI|is for (torch|CUDA|ROCm|XPU)")  # as in the page's `nearest`
AXES = 4  # numbers of a combination in a grid: system, accelerator, torch, row


class FileTable(NamedTuple):
    """A file in the data; the page reads more of it."""

    name: str
    address: str
    sha256: str
    yanked: str | None = None
    archs: tuple[str, ...] = ()
    lock: Any = None
    repository: str = ""
    attested: str = ""


class VersionTable(NamedTuple):
    """A version in the data."""

    version: str
    pre: bool
    files: tuple[FileTable, ...]
    outcomes: tuple[tuple[int, int], ...]
    grid: int


class ProjectTable(NamedTuple):
    """The data of a project, as `project_data` writes it."""

    project: str
    listings: tuple[VersionTable, ...]
    systems: tuple[tuple[str, str], ...]
    accelerators: tuple[tuple[str, str], ...]
    torches: tuple[str, ...]
    pythons: tuple[str, ...]
    texts: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]
    grids: tuple[tuple[int, ...], ...]


class UserMachine(NamedTuple):
    """A machine by what decides about its wheel, and by the four names of the page's choice."""

    facts: backend.Facts
    system: str  # linux-x86_64
    accelerator: str = ""  # cu130
    torch: str = ""  # 2.10
    python: str = ""  # 3.14t

    @property
    def cuda(self) -> str:
        """Its version of CUDA: 13.0; "" if it has none."""
        found = re.fullmatch(r"cu(\d+)(\d)", self.accelerator)
        return f"{found[1]}.{found[2]}" if found else ""

    @property
    def kind(self) -> str:
        """The kind of its accelerator: cuda."""
        return "cuda" if self.cuda else re.sub(r"[\d.]+", "", self.accelerator)


class Match(NamedTuple):
    """The wheel that an index has of a project for a machine, or why it has none."""

    project: str
    version: str = ""
    file: FileTable | None = None
    why: str = ""  # why there is no wheel
    newest: str = ""  # the newest version, if it has no wheel for the machine and an older one has
    recipes: tuple[tuple[str, str], ...] = ()  # those that make one: the name, or the name and why it cannot


def parse_project(content: bytes) -> ProjectTable:
    """Return the data of a project; raise ValueError if it is not whole."""
    return structure_call(content, "finder", ProjectTable)


def search(projects: Iterable[ProjectTable], makers: Sequence[Maker], machine: UserMachine) -> list[Match]:
    """Return a match for each project, and for each that only a recipe makes; those with a wheel first, by name."""
    found = {one.project: _search_project(one, machine) for one in projects}
    for maker in makers:
        found.setdefault(maker.project, Match(maker.project, why="this index has no wheel of it"))
    whole = (
        match if match.file else match._replace(recipes=_recipes_for(match.project, makers, machine))
        for match in found.values()
    )
    return sorted(whole, key=lambda match: (match.file is None, match.project))


def _recipes_for(project: str, makers: Iterable[Maker], machine: UserMachine) -> tuple[tuple[str, str], ...]:
    own = (maker for maker in makers if maker.project == project)
    return tuple((maker.recipe, refuse_maker(maker, machine)) for maker in own)


# -- one project


def _search_project(project: ProjectTable, machine: UserMachine) -> Match:
    final = [one for one in project.listings if not one.pre and not all(file.yanked is not None for file in one.files)]
    listings = final or project.listings
    why = "it has no file here"
    for place, listing in enumerate(listings):
        file, reason = _answer(project, listing, machine)
        if file:
            return Match(project.project, listing.version, file, newest=listings[0].version if place else "")
        why = why if place else reason
    return Match(project.project, listings[0].version if listings else "", why=why)


def _answer(project: ProjectTable, listing: VersionTable, machine: UserMachine) -> tuple[FileTable | None, str]:
    """Return what `pip install` takes of a version, among what its release offers; or None and the reason."""
    refused = _refusal_of_offer(project, listing, machine)
    if refused:
        return None, refused
    files = {file.name: file for file in listing.files if WHEEL.fullmatch(file.name)}
    kept = {name: file for name, file in files.items() if file.yanked is None} or files
    choice = backend.choose({"wheels": [_locked(file) for file in kept.values()]}, machine.facts)
    if choice.wheel:
        return kept[str(choice.wheel["file"])], ""
    return None, _none_fits(choice.rows)


def _refusal_of_offer(project: ProjectTable, listing: VersionTable, machine: UserMachine) -> str:
    """Return the reason for which the release has no file for exactly this machine; "" if it does not say."""
    wanted = (machine.system, machine.accelerator, machine.torch, machine.python)
    grid = project.grids[listing.grid]
    for at in range(0, len(grid), AXES):
        system, accelerator, torch, row = grid[at : at + AXES]
        for python, outcome in enumerate(project.rows[row]):
            named = (project.systems[system][0], project.accelerators[accelerator][0], project.torches[torch])
            if outcome >= 0 and (*named, project.pythons[python]) == wanted and listing.outcomes[outcome][0] < 0:
                return project.texts[listing.outcomes[outcome][1]]
    return ""


def _locked(file: FileTable) -> dict[str, Any]:
    """Return a wheel as the backend of a smart sdist reads it from a lock."""
    lock = file.lock or {}
    driver = {"sass": None, "ptx": None, **(lock.get("driver") or {})}
    return {**NO_LOCK, **lock, "file": file.name, "archs": list(file.archs), "driver": driver}


def _none_fits(rows: Sequence[tuple[str, str]]) -> str:
    """Return why no wheel fits: the reason of the only one, or of the one that comes nearest, as the page does."""
    if not rows:
        return "this version has no wheel that can be installed"
    late = [row for row in rows if LATE.search(row[1])]
    name, why = next((row for row in late if "without CUDA" not in row[1]), (late or rows)[0])
    return f"{name}: {why}"


# -- the recipe that makes it


def refuse_maker(maker: Maker, machine: UserMachine) -> str:
    """Return why a recipe cannot make a wheel for a machine, or "" if it can; the twin of the page's `refuseRecipe`."""
    if (machine.system, machine.kind) not in maker.systems:
        return f"it is for {' and '.join(' with '.join(filter(None, one)) for one in maker.systems)}"
    for one in maker.exclusions:
        asked = ((machine.python, one.python), (machine.torch, one.torch), (machine.cuda, one.cuda))
        if all(not values or value in values for value, values in asked):
            return one.reason
    if maker.python and machine.python not in maker.python:
        return f"it names a version for Python {' and '.join(maker.python)} only"
    return ""


def ask_by(maker: Maker, machine: UserMachine) -> str:
    """Return the command that writes the config of the release that makes the wheel."""
    words = ["fatwheel recipe copy", maker.recipe, "build --release", f"--python {machine.python}"]
    words += [f"--torch {machine.torch}"] if maker.uses_torch and machine.torch else []
    words += [f"--cuda {machine.cuda}"] if machine.cuda else []
    return " ".join(words)
