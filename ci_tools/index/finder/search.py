"""Reads the finder's data of a whole index, and searches it for what fits a machine: this one, or another by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog.accelerators import read_label
from ci_tools.errors import InputError, nearest
from ci_tools.github.client import printable
from ci_tools.index.finder.data import RECIPES, Maker, data_path, parse_recipes, structure_call
from ci_tools.index.foreign.pages import projects_on
from ci_tools.install import fatwheel_backend as backend
from ci_tools.install.fatwheel_backend import Facts
from ci_tools.machine.http.client import open_session, read_document
from ci_tools.machine.http.policy import explain_unanswered
from ci_tools.model.versions import Python

if TYPE_CHECKING:
    from ci_tools.machine.context import Reporter

    Read = Callable[[str], bytes | None]

NO_LOCK: Mapping[str, Any] = {
    "cuda": None, "serves": [], "rocm": None, "xpu": False, "torch": None, "cxx11abi": None,
}  # fmt: skip
WHEEL = re.compile(r"[\w.+!]+(-[\w.+!]+){4,5}\.whl", re.ASCII)
LATE = re.compile(r"needs driver|no kernel|C\+\+ ABI|is for (torch|CUDA|ROCm|XPU)")  # as in the page's `nearest`
AXES = 4  # numbers of a combination in a grid: system, accelerator, torch, row

FRONT = "index.html"
WORKERS = 16  # concurrent requests: each mostly waits for the server
# As in the page's script/machine.js: the tag of each system's wheels.
SYSTEMS = {
    "linux-x86_64": "linux_x86_64",
    "linux-arm64": "linux_aarch64",
    "windows-x86_64": "win_amd64",
    "windows-arm64": "win_arm64",
    "macos-arm64": "macosx_26_0_arm64",
    "macos-x86_64": "macosx_26_0_x86_64",
}
GLIBC = "glibc 2.39"  # of a Linux elsewhere: nobody is asked for its version, so it is that of a present one
NONE = "none"
TORCH = re.compile(r"(\d{1,4}\.\d{1,4})(\.\d{1,4})?")
MINOR = re.compile(r"\d{1,4}\.\d{1,2}")


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


def search(projects: Iterable[ProjectTable], makers: Sequence[Maker], machine: UserMachine) -> list[Match]:
    """Return a match for each project, and for each that only a recipe makes; those with a wheel first, by name."""
    found = {one.project: _search_project(one, machine) for one in projects}
    for maker in makers:
        known = found.setdefault(maker.project, Match(maker.project, why="this index has no wheel of it"))
        if known.file is None:
            recipe = (maker.recipe, refuse_maker(maker, machine))
            found[maker.project] = known._replace(recipes=(*known.recipes, recipe))
    return sorted(found.values(), key=lambda match: (match.file is None, match.project))


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


class Shelves(NamedTuple):
    """The finder's data of an index: its projects, and the recipes that make what it does not have."""

    projects: tuple[ProjectTable, ...]
    makers: tuple[Maker, ...]
    form: str  # the address where a wheel can be asked for; empty: none


@contextmanager
def open_web(address: str) -> Iterator[Read]:
    """Yield a function that reads files below the address of an index; it returns None where there is none."""
    root = f"{address.removesuffix(FRONT).rstrip('/')}/"

    def read(key: str) -> bytes | None:
        with explain_unanswered(f"{root}{key} cannot be read"):
            return read_document(session, f"{root}{key}")

    with open_session() as session:
        yield read


def read_shelves(read: Read, where: str, only: Sequence[str], reporter: Reporter) -> Shelves:
    """Return what the finder knows of the index at `where`, of all its projects or `only` of some.

    A project whose data is not there or not whole is left out, and reported. Raises InputError if it is not an index
    with a finder, or if a project is in neither the index nor a recipe.
    """
    front = read(FRONT)
    try:
        names = projects_on(front, FRONT) if front else ()
    except ValueError:
        names = ()
    makers, form = _read_recipes(read, reporter)
    if not names and not makers:
        raise InputError(f"{where} has no front page that lists projects, expected an index that Fatwheel wrote")
    known = {*names, *(maker.project for maker in makers)}
    for name in only:
        if name not in known:
            raise InputError(f'{where} has no project "{printable(name)}", nor has a recipe, {nearest(name, known)}')
    with ThreadPoolExecutor(WORKERS) as pool:
        wanted = [name for name in dict.fromkeys(names) if not only or name in only]
        found = list(pool.map(lambda name: _read_project(read, name, reporter), wanted))
    kept = tuple(maker for maker in makers if not only or maker.project in only)
    return Shelves(tuple(filter(None, found)), kept, form)


def _read_project(read: Read, name: str, reporter: Reporter) -> ProjectTable | None:
    content = read(data_path(name))
    try:
        if content is not None:
            return structure_call(content, "finder", ProjectTable)
        why = "is not there"
    except ValueError as error:
        why = f"is not whole: {printable(str(error))}"
    reporter.say(f"left out: {name}: {data_path(name)} {why}")
    return None


def _read_recipes(read: Read, reporter: Reporter) -> tuple[tuple[Maker, ...], str]:
    content = read(RECIPES)
    if content is None:
        return (), ""
    try:
        return parse_recipes(content)
    except ValueError as error:
        reporter.say(f"left out: the recipes: {RECIPES} is not whole: {printable(str(error))}")
        return (), ""


class GivenMachine(NamedTuple):
    """Values of a machine that are given to a search; an empty field is taken from this machine."""

    system: str = ""
    torch: str = ""
    cuda: str = ""
    python: str = ""
    gpu: str = ""


def describe_machine(facts: Facts, wanted: GivenMachine) -> UserMachine:
    """Return a machine: `facts` with what is wanted in their place; raise InputError for a value that none can have.

    The GPUs and the driver of this machine count only where nothing but them decides: another system or CUDA is
    another machine's.
    """
    _refuse_wrong(wanted)
    if wanted.system and wanted.system != _system_of(facts):
        libc = (facts.libc or GLIBC) if wanted.system.startswith("linux") else ""
        facts = facts._replace(platform=SYSTEMS[wanted.system], libc=libc)
    if wanted.system or wanted.cuda:
        facts = facts._replace(driver=None, driver_cuda=None, gpus=())
    if wanted.gpu:
        facts = facts._replace(gpus=(wanted.gpu,))
    if wanted.python:
        facts = facts._replace(python=wanted.python.rstrip("t"), free_threaded=wanted.python.endswith("t"))
    facts = _with_torch(facts, wanted)
    torch = facts.torch or ""
    return UserMachine(
        facts,
        _system_of(facts),
        _accelerator_of(facts),
        ".".join(torch.partition("+")[0].split(".")[:2]),
        f"{facts.python}{'t' * facts.free_threaded}",
    )


def _refuse_wrong(wanted: GivenMachine) -> None:
    if wanted.system and wanted.system not in SYSTEMS:
        raise InputError(f'--system: "{wanted.system}" is not known, {nearest(wanted.system, SYSTEMS)}')
    if wanted.python:
        try:
            Python.parse(wanted.python)
        except ValueError as error:
            raise InputError(f"--python: {error}") from error
    forms = (("torch", TORCH, "2.10"), ("cuda", MINOR, "13.0, or none"), ("gpu", MINOR, "9.0"))
    for name, form, example in forms:
        text = getattr(wanted, name)
        if text and not form.fullmatch(text) and (name, text) != ("cuda", NONE):
            raise InputError(f'--{name}: "{text}" is not a version, expected one such as {example}')


def _with_torch(facts: Facts, wanted: GivenMachine) -> Facts:
    """Return the facts with the torch that is named, for the CUDA that is named or else for this machine's."""
    cuda = wanted.cuda or facts.torch_cuda or (facts.driver_cuda if wanted.torch else None) or ""
    cuda = "" if cuda == NONE else cuda
    if wanted.torch or (wanted.cuda and facts.torch):
        version = wanted.torch or str(facts.torch).partition("+")[0]
        text = f"{version}+cu{cuda.replace('.', '')}" if cuda else version
        plain = facts._replace(torch_rocm=None, torch_xpu=None, cxx11abi=None, asked_cuda=None)
        return plain._replace(torch=text, torch_cuda=cuda or None)
    return facts._replace(asked_cuda=wanted.cuda) if wanted.cuda else facts


def _system_of(facts: Facts) -> str:
    """Return the finder's name of a system: linux-arm64 for linux_aarch64."""
    for name, tag in SYSTEMS.items():
        os, machine = name.split("-")
        if facts.platform == tag or (os == "macos" and re.fullmatch(rf"macosx_\d+_\d+_{machine}", facts.platform)):
            return name
    return facts.platform.replace("_", "-", 1)


def _accelerator_of(facts: Facts) -> str:
    """Return the label of what is accelerated: cu130, rocm7.1, xpu; "" for nothing."""
    label = (facts.torch or "").partition("+")[2]
    if (found := read_label(label)) and not (facts.torch_cuda or facts.torch_rocm or facts.torch_xpu):
        return found.label
    cuda = facts.torch_cuda if facts.torch else facts.asked_cuda or facts.driver_cuda
    if facts.torch_rocm:
        return f"rocm{'.'.join(facts.torch_rocm.split('.')[:2])}"
    if facts.torch_xpu:
        return "xpu"
    return f"cu{cuda.replace('.', '')}" if cuda and cuda != NONE else ""
