"""Reads scikit-build-core's configuration: `[tool.scikit-build]`, its overrides, and the GPUs in CMake files.

CMake's files are only read here; `observe.cmake` runs its configure step where they leave too much open.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.model.evidence import Binding, Extensions, PythonApi
from ci_tools.model.versions import Minor
from ci_tools.source.backends.cmake_call import holds
from ci_tools.source.backends.facts import Forced, Read, ship
from ci_tools.source.includes import CMAKE_IF, SourceLine, is_unconditional, uncommented
from ci_tools.source.project_file import ProjectFile, table

if TYPE_CHECKING:
    from ci_tools.source.backends.facts import CellFacts

WITHOUT_SETUPTOOLS = "scikit_build_core.build"
BACKENDS = frozenset({WITHOUT_SETUPTOOLS, "scikit_build_core.setuptools.build_meta"})
NO = frozenset({"", "0", "false", "no", "off"})  # values of a variable that it reads as false, in any case
# What makes a module, or gives another target Python's headers, and a module that asks for the limited API.
MODULE = re.compile(
    r"\b(?:python3?|nanobind|pybind11|swig)_add_(?:library|module)\s*\([^)]*\)|\bPython3?::\w+", re.IGNORECASE
)
LIMITED = re.compile(r"python3?_add_library\s*\([^)]*\bUSE_SABI\s+(?:3\.\d|\$\{SKBUILD_SABI_VERSION\})", re.IGNORECASE)
LIMITING = (".cmake", ".txt", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".pyx", ".pxd")
# USE_SABI 3.12 (FindPython), Py_LIMITED_API=0x030C0000.
FLOOR = re.compile(r"\bUSE_SABI\s+3\.(\d{1,2})\b|\bPy_LIMITED_API[ =]+0[xX]03([0-9a-fA-F]{2})[0-9a-fA-F]{4}\b")
CMAKE_ARCHS = re.compile(
    r"""
    \b set \s* \( \s* CMAKE_CUDA_ARCHITECTURES \s ([^)]{0,2000}) \)
    | \b CUDA_ARCHITECTURES \s+ "? ([\w;-]+)
    | (?: -gencode | --generate-code ) [ =] "? ( arch= [\w,=\[\]]+ )
    """,
    re.VERBOSE,
)
CACHED = re.compile(r"\sCACHE\b")
ARGUMENT = re.compile(r"-D\s*CMAKE_CUDA_ARCHITECTURES(?::\w+)?=(\S+)")


class Setting(NamedTuple):
    """A setting after overrides and variables, and its place."""

    value: Any
    where: str
    known: bool = True  # whether it is independent of the machine


class ScikitSettings:
    """`[tool.scikit-build]` as it applies to a cell's build."""

    def __init__(self, project: ProjectFile, env: Mapping[str, str], cell: CellFacts) -> None:
        self.project, self.env, self.cell = project, env, cell
        self.told = frozenset(project.table("tool", "scikit-build", "env"))

    def wheel_setting(self, key: str, default: bool | str | None) -> Setting:  # noqa: FBT001 - a value
        """Return a setting of `[tool.scikit-build.wheel]`."""
        path = ("tool", "scikit-build", "wheel", key)
        found = self.project.value(*path)
        value = default if found is None else found
        where = f"{self.project.place(*path)}: wheel.{key} = {_format_value(value)}"
        variable = f"SKBUILD_WHEEL_{key}".upper().replace("-", "_")
        if variable in self.env:
            text = self.env[variable]
            return Setting(
                text if isinstance(default, str) else text.strip().lower() not in NO,
                f"{where}, which {variable} overrides",
            )
        return self.overridden(key, Setting(value, where))

    def overridden(self, key: str, setting: Setting) -> Setting:
        """Return a setting after the overrides."""
        for index, override in enumerate(self.project.list("tool", "scikit-build", "overrides")):
            sets = table(override, "wheel").get(key, setting.value)
            applies = holds(table(override, "if"), self.env, self.cell, self.told) if sets != setting.value else False
            place = self.project.place(f"tool.scikit-build.overrides[{index}]")
            if applies is None:
                where = f"{setting.where}, with an override that depends on the machine ({place.line})"
                return Setting(None, where, known=False)
            if applies:
                by = "with the platform's env" if "env" in str(override["if"]) else "by an override for the cell"
                setting = Setting(sets, f"{place}: wheel.{key} = {_format_value(sets)} {by}")
        return setting


def _format_value(value: object) -> str:
    if value is None:
        return "unset"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


def read(project: ProjectFile, env: Mapping[str, str], cell: CellFacts) -> Read:
    """Return the facts about scikit-build-core's build of a cell: it runs CMake unless `wheel.cmake` is false."""
    place = project.place("build-system", "build-backend")
    if project.backend != WITHOUT_SETUPTOOLS:  # the setuptools plugin, which does not read wheel.*
        return Read(Extensions.SOME, f"{place}: {project.backend} compiles", PythonApi(Binding.FULL, f"{place}"))
    settings = ScikitSettings(project, env, cell)
    extensions, where = _extensions(settings)
    api = limit(project, _python_api(settings.wheel_setting("py-api", "")))
    return Read(extensions, where, api, archs=_archs(project))


def _extensions(settings: ScikitSettings) -> tuple[Extensions, str]:
    cmake, platlib = settings.wheel_setting("cmake", default=True), settings.wheel_setting("platlib", default=None)
    for setting in (cmake, platlib):
        if not setting.known:
            return Extensions.UNKNOWN, setting.where
    if platlib.value is False:  # the wheel is then tagged for any machine, so all that CMake installs must fit any
        return ship(settings.project, platlib.where)
    if platlib.value and not cmake.value:
        return Extensions.UNKNOWN, f"{platlib.where}, so the wheel is tagged for its machine with nothing compiled"
    return (Extensions.SOME, cmake.where) if cmake.value else ship(settings.project, cmake.where)


# ---------------------------------------------------------------- against which Python


def _python_api(setting: Setting) -> PythonApi:
    """Return the API for `py3` (no Python symbol at all), `cp310` (abi3), `cp315t` (abi3t) or both (PEP 803)."""
    declared, where = setting.value, setting.where
    if declared == "":
        return PythonApi(Binding.FULL, where)
    if declared == "py3":
        return PythonApi(Binding.NONE, where)
    match = re.fullmatch(r"(?:cp3(\d{1,2}))?(?:(?:^|(?<=\d)\.)cp3(\d{1,2})t)?", str(declared))
    if match is None:
        return PythonApi(Binding.UNKNOWN, where)
    lowest, free_threaded = (Minor(3, int(digits)) if digits else None for digits in match.groups())
    at = where.partition(": ")[0]
    return PythonApi(Binding.STABLE, where, lowest, free_threaded, builds_older=True, tagged_at=at)


def limit(project: ProjectFile, api: PythonApi) -> PythonApi:
    """Return the API of a wheel whose files name the limited API of a newer Python than its tag: from that one on."""
    if api.lowest is None:
        return api
    floors = [floor for name in _own(project) if name.endswith(LIMITING) for floor in _find_floors(project, name)]
    newest, place = max(floors, default=(api.lowest, None))
    if newest <= api.lowest:
        return api
    where = f"{place} asks for the limited API of {newest}"
    return api._replace(lowest=newest, label=api.lowest, where=where, builds_older=False)


def _depth(text: str, match: re.Match[str]) -> int:
    """Return how many `if()` of a CMake file are around a place in it."""
    return sum(-1 if found[1] else 1 for found in CMAKE_IF.finditer(text, 0, match.start()))


def _find_floors(project: ProjectFile, name: str) -> Iterator[tuple[Minor, SourceLine]]:
    """Yield the Pythons whose limited API a file asks for outside any condition, each with its place."""
    text = uncommented(name, project.tree.text(name))
    for match in FLOOR.finditer(text):
        if not _depth(text, match) and is_unconditional(text, match):
            minor = int(match[1]) if match[1] else int(match[2], 16)
            yield Minor(3, minor), SourceLine.at(name, text, match.start())


@functools.lru_cache(maxsize=1)  # it is the same for every cell
def states_limit(project: ProjectFile) -> bool:
    """Whether CMake files ask for the limited API in every module that they make, on every system."""
    texts = [uncommented(name, project.tree.text(name)) for name in _cmake_files(project)]
    found = [(text, match) for text in texts for match in MODULE.finditer(text)]
    return bool(found) and all(LIMITED.match(match[0]) and not _depth(text, match) for text, match in found)


# ---------------------------------------------------------------- for which GPUs


@functools.lru_cache(maxsize=1)  # they are the same for every cell
def _archs(project: ProjectFile) -> tuple[Forced, ...]:
    """Return the architectures that the project compiles for, whatever the request says."""
    return (*_configuration_archs(project), *_cmake_archs(project, _cmake_files(project)))


def _configuration_archs(project: ProjectFile) -> Iterator[Forced]:
    """Yield the architectures that the configuration passes to CMake."""
    define = ("tool", "scikit-build", "cmake", "define")
    if archs := project.value(*define, "CMAKE_CUDA_ARCHITECTURES"):
        yield Forced(str(archs), str(project.place(*define, "CMAKE_CUDA_ARCHITECTURES")))
    for argument in project.list("tool", "scikit-build", "cmake", "args"):
        if match := ARGUMENT.match(str(argument)):
            yield Forced(match[1], str(project.place("tool", "scikit-build", "cmake", "args")))


def _cmake_archs(project: ProjectFile, files: Iterable[str]) -> Iterator[Forced]:
    """Yield the architectures that CMake files set literally, not through a variable."""
    for file in files:
        text, line, done = re.sub(r"#.*", "", project.tree.text(file)), 1, 0
        for match in CMAKE_ARCHS.finditer(text):
            line, done = line + text.count("\n", done, match.start()), match.start()
            archs = (CACHED.split(match[1] or "", 1)[0] or match[2] or match[3] or "").strip().strip('"')
            if archs and archs != "OFF" and "$" not in archs:
                yield Forced(archs, f"{file}:{line}")


def _cmake_files(project: ProjectFile) -> Iterator[str]:
    return (name for name in _own(project) if name.endswith(("CMakeLists.txt", ".cmake")))


def _own(project: ProjectFile) -> Iterator[str]:
    folder = project.folder
    return (name for name in project.tree.files if PurePosixPath(name).is_relative_to(folder))
