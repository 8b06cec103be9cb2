"""Names the places of mistakes in a release's config by the recipe that it was written from, or by the option chosen.

The config of a release is written for a moment, and its lines are not those of the recipe.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_tools.config.location import read_document
from ci_tools.errors import FatwheelError, Problem, RejectedInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_tools.formats.yaml_file import Document, Keys
    from ci_tools.recipes.choice import RecipeChoice
    from ci_tools.recipes.shelf import Recipe


@contextmanager
def as_in_recipe(recipe: Recipe, choice: RecipeChoice, config: Path) -> Iterator[None]:
    """Restate the errors of the body, which are about the config of a release, as errors of its recipe."""
    try:
        yield
    except FatwheelError as error:
        raise restate(error, recipe, choice, config) from error


def restate(error: FatwheelError, recipe: Recipe, choice: RecipeChoice, config: Path) -> FatwheelError:
    """Return an error about the config of a release with the places of its recipe, or the options of the choice."""
    places = _Places(recipe, choice, config)
    if isinstance(error, RejectedInput):
        problems = [Problem(places.restate(one.where), places.restate(one.what)) for one in error.problems]
        return RejectedInput(problems, hint=error.hint, page=error.page)
    return type(error)(places.restate(error.message), hint=error.hint, page=error.page)


class _Places:
    """The places of a config, and of the recipe that it was written from."""

    def __init__(self, recipe: Recipe, choice: RecipeChoice, config: Path) -> None:
        self.own = read_document(recipe.config, str(recipe.config))
        self.options = _options(choice)
        self.keys = _keys_by_place(read_document(config, str(config)))
        whole, name = re.escape(str(config)), re.escape(config.name)
        self.pattern = re.compile(rf"(?:{whole}|(?<![\w./-]){name})(?::(\d+)(?::(\d+))?)?")

    def restate(self, text: str) -> str:
        """Return a text with the places of the recipe in it."""
        return self.pattern.sub(self._place, text)

    def _place(self, found: re.Match[str]) -> str:
        line, column = int(found[1] or 0), int(found[2] or 0)
        keys = self.keys.get((line, column)) or self.keys.get((line, 0), ())
        return self.options.get(_kind(keys)) or self.own.where(keys)


def _options(choice: RecipeChoice) -> dict[str, str]:
    """Return the options that were chosen, by the kind of key that each sets."""
    given = {
        "version": choice.version, "python": choice.pythons, "torch": choice.torches, "cuda": choice.cudas,
        "archs": choice.archs,
    }  # fmt: skip
    return {name: f"--{name}" for name, value in given.items() if value}


def _kind(keys: Keys) -> str:
    """Return the key that an option sets: archs for those of any platform."""
    at = 2 if keys[:1] == ("platforms",) else 0
    return str(keys[at]) if len(keys) > at else ""


def _keys_by_place(document: Document) -> dict[tuple[int, int], Keys]:
    """Return the keys at each line and column, and at column 0 the first of each line."""
    found: dict[tuple[int, int], Keys] = {}
    for table in (document.values, document.keys):
        for keys, place in table.items():
            found.setdefault((place.line, place.column), keys)
            found.setdefault((place.line, 0), keys)
    return found
