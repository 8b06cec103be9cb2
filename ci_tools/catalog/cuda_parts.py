"""The libraries of a CUDA toolkit: by which headers a source asks for each, and where it is published."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.catalog.tables import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
