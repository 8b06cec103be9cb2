"""Describes recipes for the finder of an index: for which machines each can be asked for a wheel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from packaging.utils import canonicalize_name

from ci_tools import catalog as catalogs
from ci_tools.config.loader import refuse_misshapen
from ci_tools.index.finder.data import Exclusion, Maker, system_and_kind
from ci_tools.model.platforms import Platform
from ci_tools.recipes.shelf import Recipe

FIELDS = ("python", "torch", "cuda")


def list_makers(recipes: Iterable[Recipe]) -> list[Maker]:
    """Return what each recipe can be asked for; raise RejectedInput with the mistakes of one that is misshapen."""
    return [_make(recipe) for recipe in recipes]


def _make(recipe: Recipe) -> Maker:
    root = recipe.read()
    refuse_misshapen(recipe.config)
    versions = root.get("versions")
    pythons = [python for served in versions.values() for python in served] if isinstance(versions, dict) else []
    return Maker(
        recipe.name,
        canonicalize_name(str(root["package"])),
        tuple(dict.fromkeys(_systems(root["platforms"]))),
        tuple(map(str, pythons)),
        bool(root.get("torch")),
        tuple(Exclusion(str(one["reason"]), *(_texts(one.get(field)) for field in FIELDS)) for one in _excluded(root)),
    )


def _systems(platforms: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the machine and the accelerator of each platform that Fatwheel knows; `recipe check` reports another."""
    known, catalog = {str(one): one for one in Platform}, catalogs.load()
    for name in platforms:
        if name in known:
            yield system_and_kind(known[name], catalog)


def _excluded(root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = root.get("unsupported")
    return [one for one in listed if isinstance(one, dict) and "reason" in one] if isinstance(listed, list) else []


def _texts(values: object) -> tuple[str, ...]:
    return tuple(map(str, values)) if isinstance(values, list) else ()
