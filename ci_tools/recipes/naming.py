"""Reads how the recipes name their releases, how long these stay, and who owns their platforms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.publish.retention.naming import read_naming
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import releases_of_all
from ci_tools.recipes.shelf import CALLERS, list_recipes

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.machine.context import Outside
    from ci_tools.publish.retention.naming import Naming


def read_namings(outside: Outside, callers: Path = CALLERS) -> list[Naming]:
    """Return the naming of every recipe; raise InputError with the mistakes of one that cannot be read."""
    return [naming for naming, _ in read_namings_and_owners(outside, callers)]


def read_namings_and_owners(outside: Outside, callers: Path = CALLERS) -> list[tuple[Naming, dict[str, str]]]:
    """Return the naming of every recipe with the owner of each of its platforms, "" for none; raise InputError, too."""
    recipes = list_recipes(callers)
    owners: dict[str, dict[str, str]] = {recipe.name: {} for recipe in recipes}
    for release in releases_of_all(recipes, RecipeChoice(), outside):  # loads each, and so checks it
        named = {str(platform.platform): platform.owner or "" for platform in release.request.platforms}
        owners[release.recipe] |= named
    return [(read_naming(recipe.read()), owners[recipe.name]) for recipe in recipes]
