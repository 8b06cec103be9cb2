"""The variables of the build: each reader is recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from ci_tools.observe.inside.facts import FACTS

# ruff: noqa: SIM905 - as words they fit on a page
# Variables that do not change a build: whatever their values, the result is the same.
INDIFFERENT = frozenset("CMAKE_BUILD_PARALLEL_LEVEL HOME MAX_JOBS PATH SOURCE_DATE_EPOCH TMPDIR".split())
FOR_OUR_TOOLS = "SETUPTOOLS_EXT_SUFFIX"  # tells setuptools the suffix of the libraries; no builder sets it
OURS = ("FATWHEEL_", FOR_OUR_TOOLS)
# Variables that Windows itself sets; their names have no case there.
OF_WINDOWS = frozenset(
    "ALLUSERSPROFILE APPDATA COMSPEC HOMEDRIVE HOMEPATH LOCALAPPDATA NUMBER_OF_PROCESSORS OS PATHEXT PROGRAMDATA "
    "PROGRAMFILES SYSTEMDRIVE SYSTEMROOT USERNAME USERPROFILE VCINSTALLDIR VSINSTALLDIR WINDIR".split()
)
LISTERS: list[str] = []  # not empty: the project has read all variables at once
GIVEN: dict[str, str] = {}  # the variables of the cell's build
COPIES = "subst_vars"  # a function of distutils that copies all variables and uses few


def is_of_windows(name: str) -> bool:
    """Whether Windows itself sets a variable."""
    return name.upper() in OF_WINDOWS or name.upper().startswith(("PROCESSOR_", "PROGRAMFILES"))


def _read(name: str) -> None:
    """Record that a variable is read, also by other code: setuptools reads some for the project."""
    if name in INDIFFERENT or name.startswith(OURS):
        return
    if FACTS.lets_ask():
        FACTS.note(f"env:{name}")
        if is_of_windows(name) and FACTS.ask("os") == "windows":
            FACTS.doubt(f"asks for {name}, which no cell defines")
    elif not FACTS.is_called_in(COPIES):
        FACTS.note_others(f"env:{name}")


def _is_hidden(name: str) -> bool:
    """Whether a variable is for our tools only, and the project's code asks for it."""
    return name == FOR_OUR_TOOLS and FACTS.lets_ask()


class _Environ(os._Environ):  # type: ignore[type-arg]  # noqa: SLF001 - the class of os.environ
    """Variables that record their readers."""

    def __getitem__(self, name: Any) -> Any:
        _read(os.fsdecode(name))
        if _is_hidden(os.fsdecode(name)):
            raise KeyError(name)
        return super().__getitem__(name)

    def __contains__(self, name: Any) -> bool:
        _read(os.fsdecode(name))
        return not _is_hidden(os.fsdecode(name)) and super().__contains__(name)

    def __iter__(self) -> Iterator[Any]:
        if FACTS.lets_ask():
            FACTS.note("env")
            LISTERS.append("env")
        names = super().__iter__()
        return (name for name in names if not _is_hidden(os.fsdecode(name)))

    def __len__(self) -> int:
        if FACTS.lets_ask():
            FACTS.note("env")
        return sum(not _is_hidden(os.fsdecode(name)) for name in self._data)


def set_variables(env: Mapping[str, str]) -> None:
    """Replace the variables of this process by those of the cell's build, and watch who reads them."""
    GIVEN.update(env)
    os.environ.clear()
    os.environ.update(env)
    os.environ.__class__ = _Environ
    if hasattr(os, "environb"):
        os.environb.__class__ = _Environ


def list_changes(env: Mapping[Any, Any] | None) -> list[str]:
    """Return what the project has changed in the variables of a program that it starts; None: those of this process.

    A variable that it has removed is listed without a value.
    """
    here = os.environ._data if env is None else env  # type: ignore[attr-defined]  # noqa: SLF001 - it records no reader
    found = {os.fsdecode(name): os.fsdecode(value) for name, value in here.items()}
    names = {name for name in GIVEN.keys() | found.keys() if GIVEN.get(name) != found.get(name)}
    return [f"{name}={found.get(name, '')}" for name in sorted(names - INDIFFERENT - {FOR_OUR_TOOLS})]
