"""Selects the compiled files in a source that its wheel would ship unchanged."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from ci_tools.formats.magic import name_systems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.catalog import PlatformFacts
    from ci_tools.source.files import Tree

# Top-level folders of a project that no backend packs unless it is configured to.
NOT_PACKED = frozenset({"benchmarks", "doc", "docs", "examples", "test", "tests"})
MAY_SHIP = "a compiled file, which the wheel may contain"


def explain_foreign(tree: Tree, where: str, facts: PlatformFacts) -> str:
    """Return why the compiled file that a doubt is about is of no use to a platform; "" if it may be."""
    name = where.partition(":")[0]
    if not where.endswith(MAY_SHIP):
        return ""
    with (tree.root / name).open("rb") as file:
        systems = name_systems(file)
    is_own = not systems or f"{facts.os} {facts.machine}" in systems
    return "" if is_own else f"its wheel may ship {name}, which is for {', '.join(systems)}"


def select_binaries(tree: Tree, folder: str, told: str = "") -> Iterator[str]:
    """Yield the compiled files, by their first bytes, that a wheel of the project in `folder` may hold.

    `told` is the text of the project's packing settings: a folder that it names is packed.
    """
    for name in tree.binaries:
        path = PurePosixPath(name)
        if path.is_relative_to(folder or "."):
            top = path.relative_to(folder or ".").parts[0]
            if not top.startswith(".") and (top not in NOT_PACKED or top in told):
                yield name
