"""Reads what a project tells cibuildwheel in pyproject.toml: what a starter takes of it, and why not the rest.

The options are those of https://cibuildwheel.pypa.io/en/stable/options/. `cp312-manylinux_x86_64` is an identifier.
"""

from __future__ import annotations

import fnmatch
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ci_tools.catalog.tables import parse
from ci_tools.model.platforms import Platform
from ci_tools.model.versions import Python, is_of_index, name_of_required
from ci_tools.source.includes import SourceLine
from ci_tools.source.project_file import ProjectFile

TABLE = ("tool", "cibuildwheel")
SYSTEMS = ("linux", "macos", "windows")
OTHERS = frozenset({"android", "ios", "pyodide"})
# The system, the end of a build identifier, and the architecture of a platform's wheels; CUDA's are linux-cpu's.
IDENTIFIERS = {
    Platform.LINUX_AARCH64: ("linux", "manylinux_aarch64", "aarch64"),
    Platform.MACOS_ARM64: ("macos", "macosx_arm64", "arm64"),
    Platform.WINDOWS: ("windows", "win_amd64", "AMD64"),
}
LINUX = ("linux", "manylinux_x86_64", "x86_64")
ANY_ARCH = frozenset({"all", "auto", "auto64", "native", "universal2"})  # each of them has the runner's own
SELECTING = frozenset({"archs", "build", "skip"})  # a wheel that one of them leaves out is missing
PYTHONS = range(6, 40)  # minors, so that a platform is known to be built though the catalog lacks its Python
BRACES = re.compile(r"\{([^{}]*)\}")
PIP = re.compile(r"(python3? -m )?pip3? install ")  # pip, pip3, or python -m pip
COMPUTED = re.compile(r"[$`]")  # by a shell
# What installers, tests and terminals read. Relative paths among them are not those of an isolated build.
TOOLS = re.compile(r"(CIBW|MYPY|PIP|PRE_COMMIT|PYTEST|TOX|UV)_\w+|(\w+_)?COLORS?|CLICOLOR\w*|LD_LIBRARY_PATH|PATH|TERM")
FATES = parse(Path(__file__).with_name("cibuildwheel.toml").read_bytes())
WORKFLOWS = ".github/workflows/"
VARIABLE = re.compile(r"\b(CIBW_(?P<option>[A-Z0-9_]+?)(?:_(?:LINUX|MACOS|WINDOWS))?)[ ]?[:=]")


class Note(NamedTuple):
    """An option of cibuildwheel, its place, and whether it was taken."""

    place: str
    option: str
    what: str


class Told(NamedTuple):
    """The options of cibuildwheel that a starter takes from a project, and a note for each option."""

    env: tuple[tuple[str, str, str], ...] = ()  # name, value and the system, "" for all
    requires: tuple[str, ...] = ()  # requirements of the build, which `before-build` installs
    build: tuple[str, ...] = ("*",)
    skip: tuple[str, ...] = ()
    archs: tuple[tuple[str, tuple[str, ...], str], ...] = ()  # a system, its architectures, the place; the last counts
    notes: tuple[Note, ...] = ()

    def env_of(self, platform: Platform) -> tuple[tuple[str, str], ...]:
        """Return the variables that are for a platform's system only."""
        system, *_ = IDENTIFIERS.get(platform, LINUX)
        return tuple((name, value) for name, value, whose in self.env if whose == system)

    @property
    def env_of_all(self) -> tuple[tuple[str, str], ...]:
        """The variables of every build."""
        return tuple((name, value) for name, value, whose in self.env if not whose)

    def builds(self, python: Python) -> bool:
        """Whether a wheel for this Python is built for some platform."""
        return any(self._selects(python.abi_tag, end) for _, end, _ in (LINUX, *IDENTIFIERS.values()))

    def explain_left_out(self, platform: Platform) -> str:
        """Return why a platform's wheels are not built, or "" if they are."""
        system, end, arch = IDENTIFIERS.get(platform, LINUX)
        asked = [(archs, place) for whose, archs, place in self.archs if whose in {"", system}]
        if asked and not {arch, arch.lower(), *ANY_ARCH} & {*asked[-1][0]}:
            return f"{asked[-1][1]}: cibuildwheel's archs are {' '.join(asked[-1][0])}"
        if not any(self._selects(f"cp3{minor}", end) for minor in PYTHONS):
            place = next(note.place for name in ("skip", "build") for note in self.notes if note.option == name)
            return f"{place}: cibuildwheel builds none for it"
        return ""

    def _selects(self, python: str, end: str) -> bool:
        name = f"{python}-{end}"
        is_built, is_skipped = (any(fnmatch.fnmatchcase(name, one) for one in some) for some in (self.build, self.skip))
        return is_built and not is_skipped


def read_cibuildwheel(project: ProjectFile) -> Told:
    """Return what the project's pyproject.toml tells cibuildwheel, with a note for each variable of its workflows."""
    told, variables = Told(), [*_read_workflows(project)]
    for system in ("", *SYSTEMS):  # the table of a system counts more
        keys = (*TABLE, system) if system else TABLE
        for option, value in project.table(*keys).items():
            note = Note(str(project.place(*keys, option)), option, "")
            names = {f"CIBW_{option}".upper(), f"CIBW_{option}_{system}".upper()} if option in SELECTING else {}
            if stronger := next((one for one in variables if one.option in names), None):
                told = _with_note(told, note, f"not taken: {stronger.place} sets {stronger.option}, which counts more")
            elif option not in SYSTEMS:
                told = _take(told, note, value, system, project)
    ends = ((one, one.option.removeprefix("CIBW_ARCHS_").lower()) for one in variables)
    unknown = tuple((system, ("auto",), one.place) for one, system in ends if system in SYSTEMS)
    return told._replace(notes=(*told.notes, *variables), archs=(*told.archs, *unknown))


def _read_workflows(project: ProjectFile) -> Iterator[Note]:
    """Yield a note for each variable of cibuildwheel in a workflow: its value may hold for one job only."""
    for name in (name for name in project.tree.files if name.startswith(WORKFLOWS)):
        text = re.sub(r"(?m)^[ ]*#.*", "", project.tree.text(name))
        found = {match[1]: match for match in reversed([*VARIABLE.finditer(text)])}  # where each is first
        for variable, match in sorted(found.items(), key=lambda one: one[1].start()):
            option = match["option"].lower().replace("_", "-").replace("x86-64", "x86_64")
            yield Note(str(SourceLine.at(name, text, match.start(1))), variable, _not_taken(option))


def _take(told: Told, note: Note, value: object, system: str, project: ProjectFile) -> Told:
    """Return the options with one more."""
    if note.option in {"build", "skip"}:
        patterns = tuple(each for one in _words(value) for each in _expand(one))
        told = told._replace(build=patterns) if note.option == "build" else told._replace(skip=patterns)
        return _with_note(told, note, "taken, as far as it is about whole Pythons and platforms")
    if note.option == "archs":
        archs = (*told.archs, (system, tuple(_words(value)), note.place))
        return _with_note(told._replace(archs=archs), note, "taken: the platforms")
    if value in ("", [], {}) and note.option != "repair-wheel-command":  # an empty one of that repairs nothing
        return told
    if note.option == "environment":
        pairs = dict(_variables(value))
        of_build = (pair for pair in pairs.items() if not COMPUTED.search(pair[1]) and not TOOLS.fullmatch(pair[0]))
        plain = tuple((name, text, system) for name, text in of_build)
        taken = ", ".join(name for name, _, _ in plain)
        rest = "; not those of installers and terminals, and what a shell computes" if len(plain) < len(pairs) else ""
        what = f"taken: {taken} as `env`{rest}" if plain else _not_taken(note.option)
        return _with_note(told._replace(env=(*told.env, *plain)), note, what)
    if note.option == "before-build" and (found := _read_installed(value)):
        declared = {name_of_required(one) for one in (*project.build_requires(), *told.requires)}
        new = tuple(one for one in found if name_of_required(one) not in declared)
        what = f"taken: {', '.join(new)} as `build: {{requires: …}}`" if new else "not needed: the build requires it"
        return _with_note(told._replace(requires=(*told.requires, *new)), note, what)
    return _with_note(told, note, _not_taken(note.option))


def _with_note(told: Told, note: Note, what: str) -> Told:
    return told._replace(notes=(*told.notes, note._replace(what=what)))


def _not_taken(option: str) -> str:
    if option in FATES["not-needed"]:
        return f"not needed: {FATES['not-needed'][option]}"
    if option in OTHERS:
        return "not taken: there is no such platform"
    instead = FATES["not-taken"].get(option, "`validate`" if option.startswith("test-") else "")
    return f"not taken; in its place: {instead}" if instead else "not taken"


def _words(value: object) -> list[str]:
    return value.split() if isinstance(value, str) else [str(one) for one in value] if isinstance(value, list) else []


def _expand(pattern: str) -> Iterator[str]:
    """Yield the patterns that braces stand for, as in a shell: cp3{11,12}-*."""
    found = BRACES.search(pattern)
    if not found:
        yield pattern
        return
    for one in found[1].split(","):
        yield from _expand(f"{pattern[: found.start()]}{one}{pattern[found.end() :]}")


def _variables(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        yield from ((name, str(text)) for name, text in value.items())
    elif isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError:
            return
        yield from ((name, text) for name, is_pair, text in (word.partition("=") for word in words) if is_pair)


def _read_installed(value: object) -> Sequence[str]:
    """Return the requirements of commands that only install some; nothing if a command does anything else."""
    found: list[str] = []
    for command in value if isinstance(value, list) else [value]:
        for part in str(command).split("&&"):  # cibuildwheel joins a list so, too
            said = PIP.match(part.strip())
            words = part.strip()[said.end() :].split() if said else []
            names = [word.strip("'\"") for word in words if word not in {"-U", "--upgrade"}]
            if not names or not all(map(is_of_index, names)):  # options, paths and variables are none
                return ()
            found += names
    return found
