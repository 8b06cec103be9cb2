"""Reads how the recipes name their releases, how long these stay, and who owns their platforms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_tools import catalog as catalogs
from ci_tools.config import loader
from ci_tools.config.location import read_document
from ci_tools.publish.retention.tags import Naming, read_namings
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import releases_of_all
from ci_tools.recipes.shelf import CALLERS, list_recipes

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.machine.context import Outside


def read_config(path: Path, outside: Outside) -> list[tuple[Naming, dict[str, str]]]:
    """Return the namings of a config with the owner of each of its platforms, "" for none; raise InputError, too."""
    request = loader.load(path, catalogs.load(), outside=outside)  # raises the error of every mistake
    root: Any = read_document(path, str(path)).value  # what loads is a mapping
    owners = {str(platform.platform): platform.owner or "" for platform in request.platforms}
    return [(naming, owners) for naming in read_namings(root)]


def read_namings_and_owners(outside: Outside, callers: Path = CALLERS) -> list[tuple[Naming, dict[str, str]]]:
    """Return the same of every recipe; raise InputError with the mistakes of one that cannot be read."""
    recipes = list_recipes(callers)
    owners: dict[str, dict[str, str]] = {recipe.name: {} for recipe in recipes}
    for release in releases_of_all(recipes, RecipeChoice(), outside):  # loads each, and so checks it
        named = {str(platform.platform): platform.owner or "" for platform in release.request.platforms}
        owners[release.recipe] |= named
    return [(naming, owners[recipe.name]) for recipe in recipes for naming in read_namings(recipe.read())]
