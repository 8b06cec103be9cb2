"""Finds recipes: those of the caller's folder `recipes`, then ours; of one name, the caller's counts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.config.location import read_document
from ci_tools.errors import InputError, Problem, RejectedInput, nearest
from ci_tools.machine.storage import naming
from ci_tools.model.names import CONFIG_FILE

CALLERS = Path("recipes")  # the caller's folder
OURS = Path(__file__).parent


class Recipe(NamedTuple):
    """A folder with a config for somebody else's package, and the patches that it names."""

    name: str
    folder: Path
    is_ours: bool

    @property
    def config(self) -> Path:
        """Its fatwheel.yml."""
        return self.folder / CONFIG_FILE

    def read(self) -> Mapping[str, Any]:
        """Return the values of its config; raise InputError if it is not a mapping with package and python."""
        document = read_document(self.config, str(self.config))
        root = document.value
        missing = [key for key in ("package", "python", "platforms") if not isinstance(root, dict) or key not in root]
        if not isinstance(root, dict) or missing:
            what = f"a recipe needs the key {missing[0]}" if missing else "a recipe is a mapping"
            raise RejectedInput([Problem(document.where(), what)], page="reference/config.md")
        return root


def list_recipes(callers: Path = CALLERS) -> list[Recipe]:
    """Return every recipe, sorted by name."""
    found: dict[str, Recipe] = {}
    for folder, is_ours in ((callers, False), (OURS, True)):
        for config in sorted(folder.glob(f"*/{CONFIG_FILE}")):
            name = config.parent.name
            found.setdefault(name, Recipe(name, config.parent, is_ours))
    return [found[name] for name in sorted(found)]


def find_recipe(name: str, callers: Path = CALLERS) -> Recipe:
    """Return the recipe of a name; raise InputError with the nearest if there is none."""
    known = {recipe.name: recipe for recipe in list_recipes(callers)}
    if name not in known:
        msg = f'there is no recipe "{name}", {nearest(name, known)}'
        raise InputError(msg, hint=f"`fatwheel recipe new` writes a first one into {callers}/")
    return known[name]


def find_recipes(names: Iterable[str]) -> list[Recipe]:
    """Return the recipes of these names, or all if there is none; raise InputError as `find_recipe` does."""
    return [find_recipe(name) for name in names] or list_recipes()


def copy_recipe(recipe: Recipe, folder: Path) -> Path:
    """Copy a recipe with its patches into a new folder; raise InputError if that exists. Returns its config."""
    with new_folder(folder):
        shutil.copytree(recipe.folder, folder)
    return folder / CONFIG_FILE


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Let the body fill a new folder, and remove it if that fails; raise InputError if it exists already."""
    if folder.exists():
        raise InputError(f"{folder} exists already, expected a new folder")
    try:
        with naming(folder):
            yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
