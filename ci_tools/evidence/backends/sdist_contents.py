"""Compiled files that lie in a source and that a wheel of it would ship as they are."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.evidence.source import Tree

__all__ = ["select_binaries"]

# What lies at the top of a project and no backend packs unless it is told to.
NOT_PACKED = frozenset({"benchmarks", "doc", "docs", "examples", "test", "tests"})


def select_binaries(tree: Tree, folder: str, told: str = "") -> tuple[str, ...]:
    """Return the compiled files, by their first bytes, that a wheel of the project in `folder` may hold.

    `told` is what the project tells its backend to pack: a folder that it names is packed.
    """
    return tuple(_packable_names(tree.binaries, folder, told))


def _packable_names(names: Iterable[str], folder: str, told: str) -> Iterator[str]:
    for name in names:
        path = PurePosixPath(name)
        if path.is_relative_to(folder or "."):
            top = path.relative_to(folder or ".").parts[0]
            if not top.startswith(".") and (top not in NOT_PACKED or top in told):
                yield name
