"""`pkgconfig`, which asks the program of that name: whether a builder has it, and what it finds, no cell defines."""

from __future__ import annotations

from typing import NoReturn

from ci_tools.observe.inside.facts import FACTS

__all__ = ["PackageNotFoundError", "exists", "installed", "parse"]


class PackageNotFoundError(Exception):
    """The program does not find a library."""


class _Flags(dict):  # type: ignore[type-arg]  # of what the program prints
    """Flags of a library, to be handed on as they are: what is in them no cell defines."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        FACTS.doubt("reads flags that pkg-config prints, which no cell defines")
        raise KeyError

    __contains__ = __getitem__ = get = items = pop = values = _refuse  # type: ignore[assignment]


def exists(package: str) -> bool:
    """Whether the program finds a library; raise OSError if there is no such program."""
    if not FACTS.suppose("there is a program pkg-config"):
        raise OSError("pkg-config probably not installed")
    return FACTS.suppose(f"pkg-config finds {package}")


def installed(package: str, version: str) -> bool:
    """Whether the program finds a library of such a version."""
    return exists(package) and FACTS.suppose(f"pkg-config finds {package} {version}")


def parse(packages: str, static: bool = False) -> _Flags:
    """Return the flags of libraries; raise PackageNotFoundError if the program does not find one."""
    for package in packages.split():
        if not exists(package):
            raise PackageNotFoundError(f"{package} not found")
    return _Flags(libraries=[f"<{package}>" for package in packages.split()])
