"""Names the distribution that `pip install` takes for a module that `import` names."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from ci_tools.catalog.tables import read

if TYPE_CHECKING:
    from collections.abc import Iterable


def distribution_of(module: str) -> str:
    """Return the requirement that brings a module: `pyyaml` for `yaml`, else the module's own name."""
    top = module.partition(".")[0]
    return _distributions().get(top) or canonicalize_name(top)


def bring_all(required: Iterable[str]) -> frozenset[str] | None:
    """Return the distributions that some requirements bring, themselves among them; None if that is not known."""
    brought: dict[str, list[str]] = _table()["brings"]
    names = frozenset(required)
    if not names <= brought.keys():
        return None
    return names.union(*(brought[name] for name in names))


def _distributions() -> dict[str, str]:
    table: dict[str, str] = _table()["distributions"]
    return table


@functools.cache
def _table() -> dict[str, Any]:
    return read("modules")
