"""The data of recipes for the finder, `finder/_recipes.js`: which recipe makes a wheel that an index does not have.

No project has that name: a canonical one begins with a letter or a digit (PEP 503).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.index.finder.data import DATA, name_system, structure_call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.catalog import Catalog
    from ci_tools.model.platforms import Platform

RECIPES = f"{DATA}/_recipes.js"


class Exclusion(NamedTuple):
    """Cells for which a package can have no wheel, and the reason; an empty field stands for all."""

    reason: str
    python: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()


class Maker(NamedTuple):
    """A recipe, and the machines for which it can be asked for a wheel."""

    recipe: str
    project: str  # its canonical name
    systems: tuple[tuple[str, str], ...]  # a machine and its accelerator: linux-x86_64, cuda; "" for no accelerator
    python: tuple[str, ...] = ()  # those that it has a version for; empty: any
    uses_torch: bool = False
    exclusions: tuple[Exclusion, ...] = ()


class RecipesTable(NamedTuple):
    """The JSON of the file."""

    form: str
    recipes: tuple[Maker, ...]


def system_and_kind(platform: Platform, catalog: Catalog) -> tuple[str, str]:
    """Return the page's name of a platform's machine, and the kind of its accelerator: linux-x86_64, cuda."""
    facts = catalog.platforms[platform]
    return name_system(facts.os, facts.machine), str(facts.accelerator or "")


def recipes_data(makers: Sequence[Maker], form: str) -> bytes:
    """Return the content of `finder/_recipes.js`; `form` is the address where a wheel can be asked for, "" for none."""
    rows = [_describe(maker) for maker in sorted(makers)]
    text = json.dumps({"form": form, "recipes": rows}, separators=(",", ":")).replace("<", "\\u003c")
    return f"recipes({text});\n".encode("ascii")


def _describe(maker: Maker) -> dict[str, object]:
    exclusions = [{name: value for name, value in one._asdict().items() if value} for one in maker.exclusions]
    return {**maker._asdict(), "exclusions": exclusions}


def parse_recipes(content: bytes) -> tuple[tuple[Maker, ...], str]:
    """Return the recipes of such a file, and the form's address; raise ValueError if it is not one."""
    table = structure_call(content, "recipes", RecipesTable)
    return table.recipes, table.form
