"""Checks recipes: fetches the source of each release, applies its patches and makes its plan."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import FatwheelError, InputError, MachineError, Problem, RejectedInput
from ci_tools.machine.context import Outside
from ci_tools.model.request import STABLE
from ci_tools.plan import make
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import RecipeRelease, list_releases, restate
from ci_tools.recipes.shelf import Recipe


class Check(NamedTuple):
    """The result for a release of a recipe: the wheels of its plan, why others are skipped, or the error."""

    recipe: str
    tag: str
    source: str  # the commit that is planned, or the sha256 of its sdist
    wheels: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    error: FatwheelError | None = None


def check_recipes(recipes: Iterable[Recipe], choice: RecipeChoice, outside: Outside) -> list[Check]:
    """Make the plan of every release of these recipes; one that fails does not stop the others."""
    with tempfile.TemporaryDirectory() as scratch:
        return [check for recipe in recipes for check in _check_recipe(recipe, choice, Path(scratch), outside)]


def _check_recipe(recipe: Recipe, choice: RecipeChoice, folder: Path, outside: Outside) -> list[Check]:
    try:
        releases = list_releases(recipe, choice, folder, outside)
    except FatwheelError as error:
        return [Check(recipe.name, "", "", error=error)]
    return [_check_release(release, recipe, choice, outside) for release in releases]


def _check_release(release: RecipeRelease, recipe: Recipe, choice: RecipeChoice, outside: Outside) -> Check:
    if release.cannot:  # whatever its source is: it is not even fetched
        return Check(release.recipe, release.tag, "", skipped=release.cannot)
    try:
        plan = make.make_plan(release.config, outside, edition=STABLE).plan
    except FatwheelError as error:
        return Check(release.recipe, release.tag, "", error=restate(error, recipe, choice, release.config))
    return Check(
        release.recipe,
        release.tag,
        plan.pins.commit or plan.pins.source_sha256,
        tuple(job.wheel for job in plan.jobs),
        tuple(dict.fromkeys(one.reason for one in plan.skipped)),
        plan.warnings,
    )


def refuse_failures(checks: Sequence[Check]) -> None:
    """Raise the errors of releases that cannot be planned, all of them together."""
    failed = [check for check in checks if check.error]
    problems = [Problem(check.tag or check.recipe, str(check.error)) for check in failed]
    if not failed:
        return
    if any(isinstance(check.error, InputError) for check in failed):
        raise RejectedInput(problems)
    raise MachineError("\n".join(map(str, problems)))
