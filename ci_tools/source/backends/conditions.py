"""Evaluates scikit-build-core's `if`: True, False, or None if only the building machine can answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci_tools.machine.process import INHERITED
from ci_tools.model.pep440 import parse_specifiers
from ci_tools.source.project_file import table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from ci_tools.source.backends.facts import CellFacts

# Variables that a build gets from its machine or its job, not from the config: their values are unknown here.
NOT_OURS = frozenset(INHERITED) | {
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CMPLR_ROOT",
    "CUDA_HOME",
    "FATWHEEL_TORCH_INCLUDE",
    "HIP_PLATFORM",
    "MAX_JOBS",
    "PYTHONNOUSERSITE",
    "PYTORCH_ROCM_ARCH",
    "ROCM_HOME",
    "SOURCE_DATE_EPOCH",
    "TORCH_CUDA_ARCH_LIST",
    "TORCH_XPU_ARCH_LIST",
    "VIRTUAL_ENV",
}
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
