"""How scikit-build-core calls cmake's configure step: the arguments and variables in `[tool.scikit-build]`."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.machine.process import INHERITED
from ci_tools.model.versions import parse_specifiers
from ci_tools.source.project_file import ProjectFile, table
from ci_tools.source.syntax import parse_module

if TYPE_CHECKING:
    from ci_tools.source.backends.facts import CellFacts


# Variables that a build gets from its machine or its job, not from the config: their values are unknown here.
# ruff: noqa: SIM905 - as words they fit on a page
NOT_OURS = frozenset(INHERITED) | frozenset(
    "CMAKE_BUILD_PARALLEL_LEVEL CMPLR_ROOT CUDA_HOME FATWHEEL_TORCH_INCLUDE HIP_PLATFORM MAX_JOBS PYTHONNOUSERSITE "
    "PYTORCH_ROCM_ARCH ROCM_HOME SOURCE_DATE_EPOCH TORCH_CUDA_ARCH_LIST TORCH_XPU_ARCH_LIST VIRTUAL_ENV".split()
)
SYSTEMS = {"linux": "linux", "macos": "darwin", "windows": "win32"}  # sys.platform
MACHINES = {"amd64": "AMD64"}  # platform.machine() of Windows


def holds(
    condition: Mapping[str, Any], env: Mapping[str, str], cell: CellFacts, told: Collection[str] = ()
) -> bool | None:
    """Whether an override's `if` holds: all of its own keys, at least one of `any`, and none of `not`.

    `told` are the variables that the project itself sets for its build.
    """
    not_ours = NOT_OURS | frozenset(told)
    parts = []
    own = {key: value for key, value in condition.items() if key not in {"any", "not"}}
    if own or not condition:
        parts.append(_every(list(_answers(own, env, cell, not_ours))))
    if "any" in condition:
        parts.append(_some(list(_answers(table(condition, "any"), env, cell, not_ours))))
    if "not" in condition:
        parts.append(_opposite(_some(list(_answers(table(condition, "not"), env, cell, not_ours)))))
    return _every(parts)


# An unknown part makes the whole unknown only if the other parts do not decide it (Kleene's three-valued logic).


def _every(answers: Sequence[bool | None]) -> bool | None:
    if not answers:
        return None
    return False if False in answers else None if None in answers else True


def _some(answers: Sequence[bool | None]) -> bool | None:
    return _opposite(_every([_opposite(answer) for answer in answers]))


def _opposite(answer: bool | None) -> bool | None:  # noqa: FBT001 - a value
    return None if answer is None else not answer


def _answers(
    conditions: Mapping[str, Any], env: Mapping[str, str], cell: CellFacts, not_ours: Collection[str]
) -> Iterator[bool | None]:
    for key, wanted in conditions.items():
        if key == "env":
            yield from (_env(name, value, env, not_ours) for name, value in table(conditions, "env").items())
        elif key in OF_THE_CELL:
            yield _matches(OF_THE_CELL[key], cell, wanted)
        else:
            yield None


def _env(name: str, wanted: object, env: Mapping[str, str], not_ours: Collection[str]) -> bool | None:
    """Match as scikit-build-core does: `true` means set to a value that is not false; text is a pattern."""
    if (name in not_ours or name.startswith("PIP_")) and name not in env:
        return None
    value = env.get(name)
    if isinstance(wanted, bool):
        word = (value or "").lower()
        is_true = int(word) != 0 if word.isdecimal() else word not in {"", "false", "off", "no", "n", "f"}
        return wanted == is_true
    return False if value is None else _search_pattern(value, wanted)


def _search_pattern(value: str, pattern: object) -> bool | None:
    try:
        return re.search(str(pattern), value) is not None
    except re.error:
        return None


def _matches(answer: Callable[[CellFacts, Any], bool | None], cell: CellFacts, wanted: object) -> bool | None:
    try:
        return answer(cell, wanted)
    except ValueError:  # also raised for more digits than Python converts
        return None


# CMake publishes wheels for every machine that Fatwheel builds on.
OF_THE_CELL: dict[str, Callable[[CellFacts, Any], bool | None]] = {
    "abi-flags": lambda cell, wanted: _search_pattern("t" if cell.python.free_threaded else "", wanted),
    "cmake-wheel": lambda cell, wanted: wanted is True if cell.os in SYSTEMS else None,
    "implementation-name": lambda _, wanted: _search_pattern("cpython", wanted),
    "platform-machine": lambda cell, wanted: _search_pattern(MACHINES.get(cell.machine, cell.machine), wanted),
    "platform-system": lambda cell, wanted: _search_pattern(SYSTEMS[cell.os], wanted) if cell.os in SYSTEMS else None,
    # scikit-build-core compares only `3.12`, without a patch release, as this does.
    "python-version": lambda cell, wanted: parse_specifiers(str(wanted)).contains(str(cell.python.version)),
    "state": lambda _, wanted: _search_pattern("wheel", wanted),
}


# ---------------------------------------------------------------- the call

TOOL = ("tool", "scikit-build")
SOURCE_DIR = "cmake_source_dir"  # a keyword of setup(), where setuptools calls it
UNKNOWN_VERSION = "0"  # of a project that a plugin gives its version: cmake wants some
UNREAD = ("SKBUILD_CMAKE_ARGS", "SKBUILD_CMAKE_DEFINE", "SKBUILD_CMAKE_BUILD_TYPE", "SKBUILD_CMAKE_SOURCE_DIR")

# Variables by which a call names files that take the place of what observes it.
UNFOLLOWED_NAMES = re.compile(r"CMAKE_TOOLCHAIN_FILE|CMAKE_PROJECT_\w*INCLUDE\w*")
UNFOLLOWED = re.compile(rf"(--preset|--toolchain|-C|(?:-D\s*)?(?:{UNFOLLOWED_NAMES.pattern})(?=[:=])).*", re.DOTALL)


class CmakeCall(NamedTuple):
    """The call of a configure step: the folder of its CMakeLists.txt, its arguments, and the variables set for it."""

    folder: str = "."
    arguments: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    doubt: str = ""  # why the call is not known
    written: tuple[tuple[str, str], ...] = ()  # files that the build writes before it, with their text
    variable: str = "CMAKE_ARGS"  # the variable whose arguments it gets besides; "" if there is none


def read_cmake_call(project: ProjectFile, env: Mapping[str, str], cell: CellFacts) -> CmakeCall:
    """Return the call that scikit-build-core makes for a cell, with the config's variables `env`."""
    if unread := next((name for name in UNREAD if name in env), ""):
        return CmakeCall(doubt=f"{unread} in the config changes how cmake is called")
    cmake = dict(project.table(*TOOL, "cmake"))
    for at, name, value in _read_setup(project):
        if value is None:
            return CmakeCall(doubt=f"{at}: {name} is computed")
        cmake |= {"source-dir": value} if name == SOURCE_DIR else {"args": [*cmake.get("args", ()), *value]}
    told = project.table(*TOOL, "env")
    for index, override in enumerate(project.list(*TOOL, "overrides")):
        changed = table(override, "cmake")
        applies = holds(table(override, "if"), env, cell, frozenset(told)) if changed else False
        if applies is None:
            place = project.place(f"tool.scikit-build.overrides[{index}]")
            return CmakeCall(doubt=f"{place}: how cmake is called depends on the machine")
        if applies:
            define = {**table(cmake, "define"), **table(changed, "define")}
            cmake = {**cmake, **changed, "define": define}
    told_values = ((name, _value(value, env)) for name, value in told.items())
    variables = {**env, **{name: value for name, value in told_values if value is not None}}
    chosen = (*map(str, cmake.get("args", ())), *_definitions(table(cmake, "define"), env))
    chosen += tuple(shlex.split(env.get("CMAKE_ARGS", "")))  # after its own, so that they count
    words = (*chosen, *(f"{name}={value}" for name, value in variables.items()))
    if unfollowed := next(filter(None, map(UNFOLLOWED.fullmatch, words)), None):
        return CmakeCall(doubt=f"cmake is called with {unfollowed[1]}, which is not followed")
    return CmakeCall(
        str(cmake.get("source-dir", ".")),
        (
            "-DSKBUILD=2",
            "-DSKBUILD_STATE=wheel",
            "-DSKBUILD_SOABI=cpython-fatwheel",
            "-DSKBUILD_PLATLIB_DIR=<build>/install",
            f"-DSKBUILD_PROJECT_NAME={project.text('project', 'name')}",
            f"-DSKBUILD_PROJECT_VERSION={project.text('project', 'version') or UNKNOWN_VERSION}",
            f"-DCMAKE_BUILD_TYPE={cmake.get('build-type', 'Release')}",
            *chosen,
        ),
        tuple(sorted(variables.items())),
    )


def _read_setup(project: ProjectFile) -> Iterator[tuple[str, str, Any]]:
    """Yield the keywords by which setup.py changes the call, each with its place and value; None: it is computed."""
    file = project.path("setup.py")
    text = project.tree.text(file) if project.backend.endswith(".setuptools.build_meta") else ""
    module = parse_module(text) or ast.Module([], [])
    calls = [node for node in ast.walk(module) if isinstance(node, ast.Call)]
    for word in (word for call in calls for word in call.keywords if word.arg in {SOURCE_DIR, "cmake_args"}):
        value = None
        with suppress(ValueError, TypeError):
            value = ast.literal_eval(word.value)
        yield f"{file}:{word.value.lineno}", str(word.arg), value


def _definitions(define: Mapping[str, Any], env: Mapping[str, str]) -> Iterator[str]:
    for name, value in define.items():
        text = _value(value, env)
        if text is not None:
            yield f"-D{name}={text}"


def _value(value: Any, env: Mapping[str, str]) -> str | None:  # noqa: ANN401 - a value of a TOML file
    """Return a setting's text: booleans as cmake writes them, lists with semicolons, `{env, default}` as it is set."""
    if isinstance(value, dict):
        default = value.get("default")
        return env.get(str(value.get("env")), None if default is None else _value(default, env))
    if isinstance(value, list):
        return ";".join(map(str, value))
    return {True: "TRUE", False: "FALSE"}[value] if isinstance(value, bool) else str(value)
