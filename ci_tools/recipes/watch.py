"""Looks at what upstream and we have published, and says which releases of recipes are due."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ci_tools.errors import FatwheelError, InputError, RejectedInput, nearest
from ci_tools.github.client import Hub, open_hub
from ci_tools.index.of_releases import listing_name
from ci_tools.index.units import CORE
from ci_tools.machine.context import Outside
from ci_tools.model.names import is_tag
from ci_tools.model.request import PathSource
from ci_tools.plan.plan_file import hash_request
from ci_tools.publish.targets.github_release.assets import read_assets, read_list
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.due import DueVerdict, State, WantedRelease, decide
from ci_tools.recipes.releases import RecipeRelease, list_releases
from ci_tools.recipes.shelf import Recipe
from ci_tools.recipes.upstream import find_newer, newest_torch, unserved_pythons

if TYPE_CHECKING:
    from github.GitRelease import GitRelease


FOLLOWED = ("version", "torch", "python", "none")  # none: only what the recipes say
SHA256 = re.compile("[0-9a-f]{64}")


def watch(
    recipes: Iterable[Recipe], choice: RecipeChoice, follow: Sequence[str], target: str, outside: Outside
) -> list[DueVerdict]:
    """Return a verdict for every release that the recipes, and the news that are followed, ask for.

    A recipe that cannot be read, or whose upstream does not answer, gets a verdict that says so, and stops no other.
    Raises InputError for a target that is no repository, MachineError if it does not answer.
    """
    for what in follow:
        if what not in FOLLOWED:
            raise InputError(f'--follow: "{what}" is nothing to follow, {nearest(what, FOLLOWED)}')
    published = read_published(target, outside)
    verdicts: dict[str, DueVerdict] = {}
    for recipe in recipes:
        for verdict in _judge(recipe, choice, follow, published, outside):
            verdicts.setdefault(verdict.wanted.tag, verdict)
    return list(verdicts.values())


def _judge(
    recipe: Recipe, choice: RecipeChoice, follow: Sequence[str], published: Mapping[str, str], outside: Outside
) -> list[DueVerdict]:
    try:
        return [decide(wanted, published) for wanted in _wanted_of(recipe, choice, follow, outside)]
    except FatwheelError as error:
        nothing = WantedRelease(recipe.name, recipe.name, "", "", "", "", "", "", "", "")
        # The places of a config's mistakes are in a copy of the recipe, which is gone by now.
        said = "; ".join(one.what for one in error.problems) if isinstance(error, RejectedInput) else error.message
        return [DueVerdict(State.UNKNOWN, said, nothing, error=error)]


def read_published(target: str, outside: Outside) -> dict[str, str]:
    """Return the tag of every release of a repository, newest first, with the hash of what its config asked for.

    The hash is "" where it is not known.
    """
    hub = open_hub(target, outside)
    with hub.opened(anonymous=True) as repository:
        releases = hub.ask(lambda _: [one for one in repository.get_releases() if not one.draft])
        releases.sort(key=lambda one: one.published_at, reverse=True)
        return {release.tag_name: _request_of(hub, release) for release in releases}


def _request_of(hub: Hub, release: GitRelease) -> str:
    """Return the hash of what the config of a release asked for; "" if it was not published by Fatwheel."""
    name = listing_name(CORE)  # the platforms of a recipe are required, so that their wheels are its core
    if not any(asset.name == name for asset in release.assets):
        return ""
    try:
        said = json.loads(read_list(hub, read_assets(hub, release)[name])).get("request", "")
    except (AttributeError, ValueError):
        return ""
    return said if isinstance(said, str) and SHA256.fullmatch(said) else ""


def _wanted_of(
    recipe: Recipe, choice: RecipeChoice, follow: Sequence[str], outside: Outside
) -> Iterator[WantedRelease]:
    """Yield the releases that a recipe asks for, and then those that each of the followed news asks for."""
    root = recipe.read()
    for why, chosen in (("no release has its tag", choice), *_choices_of_news(root, recipe, choice, follow, outside)):
        with tempfile.TemporaryDirectory() as scratch:
            for release in list_releases(recipe, chosen, Path(scratch), outside):
                yield _want(release, why)


def _choices_of_news(
    root: Mapping[str, Any], recipe: Recipe, choice: RecipeChoice, follow: Sequence[str], outside: Outside
) -> Iterator[tuple[str, RecipeChoice]]:
    """Yield what each of upstream's news changes of a choice that leaves it open, with the reason."""
    if "version" in follow and not choice.version and (newest := find_newer(root, recipe, outside)):
        versions = root.get("versions")
        served = list(versions.values())[-1] if isinstance(versions, dict) else root["python"]
        pythons = tuple(python for python in choice.pythons or served if python in served)
        if pythons:
            yield f"upstream has published {newest}", choice._replace(version=str(newest), pythons=pythons)
    if "torch" in follow and not choice.torches and (torch := newest_torch(root)):
        yield f"torch {torch} is published", choice._replace(torches=(str(torch),))
    if "python" in follow and not choice.pythons and (pythons := tuple(unserved_pythons(root))):
        yield f"Python {', '.join(pythons)} is served by its torch", choice._replace(pythons=pythons)


def _want(release: RecipeRelease, why: str) -> WantedRelease:
    request, builder = release.request, release.request.platforms[0]  # one runner makes a release, where it can
    archs = dict.fromkeys(arch for platform in request.platforms for arch in platform.archs)
    cudas = dict.fromkeys(
        str(one.version) for platform in request.platforms for one in platform.accelerators if one.version
    )
    where = "" if is_tag(release.tag) else f"git has no tag of the name {release.tag}, expected one such as v1.0"
    if isinstance(request.source, PathSource):
        where = "its source is a folder, expected one that is fetched"
    return WantedRelease(
        release.recipe,
        release.tag,
        release.title,
        hash_request(request),
        release.version,
        ",".join(map(str, request.pythons)),
        ",".join(map(str, request.torch.versions)) if request.torch else "",
        ",".join(cudas),
        ",".join(archs),
        why,
        builder.runner,
        (builder.container or "").replace("{version}", ",".join(cudas)),
        builder.minutes,
        where or "; ".join(release.cannot),
    )
