"""Finds recipes: those of the caller's folder `recipes`, then ours; of one name, the caller's counts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import catalog as catalogs
from ci_tools.config import loader
from ci_tools.config.location import read_document
from ci_tools.errors import InputError, Problem, RejectedInput, nearest
from ci_tools.index.finder.recipes import Exclusion, Maker, system_and_kind
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.platforms import Platform
from ci_tools.publish.retention.tags import read_naming
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import releases_of_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_tools.machine.context import Outside
    from ci_tools.publish.retention.tags import Naming


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
    if folder.exists():
        msg = f"{folder} exists already, expected a new folder for the recipe"
        raise InputError(msg)
    shutil.copytree(recipe.folder, folder)
    return folder / CONFIG_FILE


FIELDS = ("python", "torch", "cuda")


def list_makers(recipes: Iterable[Recipe]) -> list[Maker]:
    """Return what each recipe can be asked for; raise RejectedInput with the mistakes of one that is misshapen."""
    return [_make(recipe) for recipe in recipes]


def _make(recipe: Recipe) -> Maker:
    root = recipe.read()
    loader.refuse_misshapen(recipe.config)
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


def read_config(path: Path, outside: Outside) -> tuple[Naming, dict[str, str]]:
    """Return the naming of a config with the owner of each of its platforms, "" for none; raise InputError, too."""
    request = loader.load(path, catalogs.load(), outside=outside)  # raises the error of every mistake
    root: Any = read_document(path, str(path)).value  # what loads is a mapping
    return read_naming(root), {str(platform.platform): platform.owner or "" for platform in request.platforms}


def read_namings_and_owners(outside: Outside, callers: Path = CALLERS) -> list[tuple[Naming, dict[str, str]]]:
    """Return the same of every recipe; raise InputError with the mistakes of one that cannot be read."""
    recipes = list_recipes(callers)
    owners: dict[str, dict[str, str]] = {recipe.name: {} for recipe in recipes}
    for release in releases_of_all(recipes, RecipeChoice(), outside):  # loads each, and so checks it
        named = {str(platform.platform): platform.owner or "" for platform in release.request.platforms}
        owners[release.recipe] |= named
    return [(read_naming(recipe.read()), owners[recipe.name]) for recipe in recipes]
