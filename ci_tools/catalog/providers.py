"""Who provides what a build names: a CUDA toolkit's parts, Windows's libraries, a module's distribution."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.catalog.tables import read


class CudaPart(NamedTuple):
    """One library: its name, its headers, its wheels and archives, and how its functions' names begin."""

    name: str
    headers: str
    project: str
    redist: str
    symbols: str
    torch: bool  # whether torch's own headers or CMake files ask for it
    kib: int  # the size of its headers on disk

    def has(self, header: str) -> bool:
        """Whether a header, as an include names it, is one of this library's."""
        return bool(re.fullmatch(self.headers, header))


class RedistFacts(NamedTuple):
    """NVIDIA's component archives: their address, the components of a compiler, and its names of platforms by host."""

    address: str
    compiler: tuple[tuple[str, ...], ...]  # the names of each, of which a release has one
    split: tuple[str, ...]  # components of a compiler that a release may lack
    platforms: Mapping[str, str]


@functools.cache
def redist_facts() -> RedistFacts:
    """Return the facts of the table about NVIDIA's archives."""
    table = read("cuda_parts")["redist"]
    compiler = tuple(map(tuple, table["compiler"]))
    return RedistFacts(table["address"], compiler, tuple(table["split"]), table["platforms"])


@functools.cache
def cuda_parts() -> tuple[CudaPart, ...]:
    """Return all libraries of the table."""
    return tuple(CudaPart(**row) for row in read("cuda_parts")["part"])


def parts_for(headers: Iterable[str], *, torch: bool) -> tuple[CudaPart, ...]:
    """Return the libraries that sources with these includes need, and those of torch if they include torch."""
    headers = frozenset(headers)
    return tuple(part for part in cuda_parts() if (torch and part.torch) or any(map(part.has, headers)))


# ---------------------------------------------------------------- the libraries of Windows


class WindowsLibraries(NamedTuple):
    """File names of libraries in lower case, patterns of names for all but those of Windows."""

    system: frozenset[str]
    api_sets: tuple[str, ...]
    python: tuple[str, ...]
    redistributable: tuple[str, ...]  # of Visual C++: an installer of its own, or a program, brings them
    debug: tuple[str, ...]
    torch: tuple[str, ...]
    driver: tuple[str, ...]
    accelerators: tuple[str, ...]

    def owner_of(self, library: str) -> str:
        """Return whose a library is, as the field of this table is called; "" if nobody's who is known."""
        name = library.lower()
        if name in self.system:
            return "system"
        fields = ("api_sets", "debug", "python", "redistributable", "torch", "driver", "accelerators")
        owners = (field for field in fields for pattern in getattr(self, field) if fnmatchcase(name, pattern))
        return next(owners, "")


@functools.cache
def windows_libraries() -> WindowsLibraries:
    """Return the table."""
    table = read("windows")
    names = table.pop("system").split()
    system = frozenset(name if "." in name and name.endswith(".drv") else f"{name}.dll" for name in names)
    return WindowsLibraries(system, **{key.replace("-", "_"): tuple(patterns) for key, patterns in table.items()})


# ---------------------------------------------------------------- the distribution of a module


def distribution_of(module: str) -> str:
    """Return the requirement that brings a module: `pyyaml` for `yaml`, else the module's own name."""
    top = module.partition(".")[0]
    named: dict[str, str] = _table()["distributions"]
    return named.get(top) or canonicalize_name(top)


def bring_all(required: Iterable[str]) -> frozenset[str] | None:
    """Return the distributions that some requirements bring, themselves among them; None if that is not known."""
    brought: dict[str, list[str]] = _table()["brings"]
    names = frozenset(required)
    if not names <= brought.keys():
        return None
    return names.union(*(brought[name] for name in names))


@functools.cache
def _table() -> dict[str, Any]:
    return read("modules")
