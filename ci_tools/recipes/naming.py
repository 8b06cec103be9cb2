"""Reads how the recipes name their releases, and how long these stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.publish.retention.naming import read_naming
from ci_tools.recipes.choice import Choice
from ci_tools.recipes.releases import releases_of_all
from ci_tools.recipes.shelf import CALLERS, list_recipes

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.machine.context import Outside
    from ci_tools.publish.retention.naming import Naming

__all__ = ["read_namings"]


def read_namings(outside: Outside, callers: Path = CALLERS) -> list[Naming]:
    """Return the naming of every recipe; raise InputError with the mistakes of one that cannot be read."""
    recipes = list_recipes(callers)
    releases_of_all(recipes, Choice(), outside)  # loads each, and so checks it
    return [read_naming(recipe.read()) for recipe in recipes]
