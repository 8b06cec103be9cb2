"""The releases of a recipe: each a config in a folder of its own, loaded, with its tag, title and what it cannot do.

The config of a release is written for a moment, and its lines are not those of the recipe: so mistakes are named by
the places there, or by the option chosen.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ci_tools import catalog as catalogs
from ci_tools.config import loader
from ci_tools.config.location import read_document
from ci_tools.config.native import resolve_native
from ci_tools.errors import FatwheelError, InputError, Problem, RejectedInput
from ci_tools.formats.yaml_file import Document, Keys
from ci_tools.machine.context import Outside
from ci_tools.model.edition import tag_of, title_of
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.request import STABLE, Request
from ci_tools.model.versions import read_version
from ci_tools.observe.cells import cells_of, torches_of
from ci_tools.plan.contradictions import explain_unsupported
from ci_tools.publish.retention.tags import Naming, read_namings
from ci_tools.recipes.choice import RecipeChoice, cut, version_of
from ci_tools.recipes.shelf import Recipe, list_recipes, new_folder
from ci_tools.recipes.upstream import pin_sdist


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


# ---------------------------------------------------------------- the releases


class RecipeRelease(NamedTuple):
    """One release of a recipe."""

    recipe: str
    config: Path
    request: Request
    version: str
    tag: str
    title: str
    cannot: tuple[str, ...]  # why no cell can have a wheel; empty if some can


def list_releases(recipe: Recipe, choice: RecipeChoice, folder: Path, outside: Outside) -> list[RecipeRelease]:
    """Return the releases of a recipe, each with its config written below `folder`.

    Raises InputError if the recipe cannot give what is chosen, or with every mistake in it.
    """
    releases = []
    for number, part in enumerate(_cut(recipe, choice, outside)):
        config = write_config(pin_sdist(part, outside), recipe.folder, folder / recipe.name / str(number))
        with as_in_recipe(recipe, choice, config):
            releases.append(name_release(recipe.name, config))
    return releases


def _cut(recipe: Recipe, choice: RecipeChoice, outside: Outside) -> list[dict[str, Any]]:
    root = recipe.read()
    loader.refuse_misshapen(recipe.config)
    return cut(root if choice.archs else resolve_native(root, str(recipe.config), outside), choice, recipe.name)


def releases_of_all(recipes: Iterable[Recipe], choice: RecipeChoice, outside: Outside) -> list[RecipeRelease]:
    """Return the releases of several recipes; their configs are gone when this returns."""
    with tempfile.TemporaryDirectory() as scratch:
        return [release for recipe in recipes for release in list_releases(recipe, choice, Path(scratch), outside)]


def list_or_reject(recipes: Iterable[Recipe], outside: Outside) -> tuple[list[RecipeRelease], RejectedInput | None]:
    """Return the releases of all recipes that can be read, and the mistakes of the others together."""
    found: list[RecipeRelease] = []
    problems: list[Problem] = []
    for recipe in recipes:
        releases, mistakes = _list_one(recipe, outside)
        found += releases
        problems += mistakes
    return found, RejectedInput(problems) if problems else None


def _list_one(recipe: Recipe, outside: Outside) -> tuple[list[RecipeRelease], Sequence[Problem]]:
    try:
        return releases_of_all([recipe], RecipeChoice(), outside), ()
    except RejectedInput as error:
        return [], error.problems
    except InputError as error:
        return [], [Problem(str(recipe.config), error.message)]


def copy_release(recipe: Recipe, choice: RecipeChoice, folder: Path, outside: Outside) -> Path:
    """Write the config of the one release that is chosen, with its patches, into a new folder; return its path.

    Raises InputError if the folder exists, if the choice is of several releases, or with every mistake in the config.
    """
    with new_folder(folder):
        parts = _cut(recipe, choice, outside)
        if len(parts) > 1:
            shown = ", ".join(f"{version_of(part)} for Python {', '.join(part['python'])}" for part in parts)
            msg = f"the recipe {recipe.name} has {len(parts)} releases: {shown}"
            raise InputError(msg, hint="choose one by --python, --version, --torch or --cuda")
        config = write_config(pin_sdist(parts[0], outside), recipe.folder, folder)
        with as_in_recipe(recipe, choice, config):
            name_release(recipe.name, config)
    return config


def write_config(root: Mapping[str, Any], patches: Path, folder: Path) -> Path:
    """Write a config and copies of its patches, which lie in the folder `patches`; return the config's path.

    The paths of the config are relative to `patches`, too.
    """
    folder.mkdir(parents=True)
    source = root.get("source") or {}
    for patch in source.get("patches") or ():
        if (patches / patch["file"]).is_file():  # or else the plan says at which line it is missing
            (folder / patch["file"]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(patches / patch["file"], folder / patch["file"])
    local = patches / str(source.get("git", ""))
    if "git" in source and local.is_dir():  # its path is relative to the recipe, not to this folder
        root = {**root, "source": {**source, "git": str(local.resolve())}}
    text = yaml.safe_dump(dict(root), sort_keys=False, allow_unicode=True, width=120)
    (folder / CONFIG_FILE).write_text(text, encoding="utf-8")
    return folder / CONFIG_FILE


def name_release(recipe: str, config: Path) -> RecipeRelease:
    """Return the release of a config; raise InputError with every mistake in it, or if it names no version."""
    request = loader.load(config, catalogs.load())
    text = version_of(
        {"version": request.version, "source": {"sdist": {"version": getattr(request.source, "version", "")}}}
    )
    version = read_version(text)
    if version is None:
        msg = f"the recipe {recipe} names no version, expected `version` or `versions`"
        raise InputError(msg, hint="a release has a tag before its source is read")
    known = {"name": str(request.name), "version": str(version)}
    return RecipeRelease(
        recipe,
        config,
        request,
        str(version),
        tag_of(STABLE, request.release.tag, known),
        title_of(STABLE, request.release.title, known),
        _reasons(request),
    )


def _reasons(request: Request) -> tuple[str, ...]:
    """Return why no cell of a request can have a wheel, as the config says; empty if some can."""
    torches = torches_of(request, catalogs.load(request.catalog))
    cells = [cell for platform in request.platforms for cell in cells_of(request, platform, torches)]
    reasons: Sequence[str] = [explain_unsupported(cell, request.unsupported) for cell in cells]
    return tuple(dict.fromkeys(reasons)) if all(reasons) else ()


def read_config(path: Path, outside: Outside) -> list[tuple[Naming, dict[str, str]]]:
    """Return the namings of a config with the owner of each of its platforms, "" for none; raise InputError, too."""
    request = loader.load(path, catalogs.load(), outside=outside)  # raises the error of every mistake
    root: Any = read_document(path, str(path)).value  # what loads is a mapping
    owners = {str(platform.platform): platform.owner or "" for platform in request.platforms}
    return [(naming, owners) for naming in read_namings(root)]


def read_namings_and_owners(outside: Outside) -> list[tuple[Naming, dict[str, str]]]:
    """Return the same of every recipe; raise InputError with the mistakes of one that cannot be read."""
    recipes = list_recipes()
    owners: dict[str, dict[str, str]] = {recipe.name: {} for recipe in recipes}
    for release in releases_of_all(recipes, RecipeChoice(), outside):  # loads each, and so checks it
        named = {str(platform.platform): platform.owner or "" for platform in release.request.platforms}
        owners[release.recipe] |= named
    return [(naming, owners[recipe.name]) for recipe in recipes for naming in read_namings(recipe.read())]
