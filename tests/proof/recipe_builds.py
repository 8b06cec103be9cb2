"""Recipes for other people's packages, each release planned, built and audited, and its wheel tried where it can be.

`python -m tests.proof.recipe_builds` does every recipe of the folder `recipes`; with names, only those.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ci_tools.build import jobs as building
from ci_tools.build.jobs import Made
from ci_tools.errors import FatwheelError
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder, write_atomically
from ci_tools.model.files import Level
from ci_tools.model.plan import Job
from ci_tools.plan import make
from ci_tools.plan.make import Planned
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import RecipeRelease, list_releases
from ci_tools.recipes.shelf import Recipe, list_recipes
from ci_tools.verify import files
from tests.proof.cuda_builds import NOT_LOADED, symbols_of
from tests.proof.torchao import cpu_seconds
from tests.proof.truth import HERE

RECORD = HERE / "recipe_builds.json"
FOLDER = HERE / "recipes"


def main() -> None:
    """Do every recipe, or those named, and write the record after each."""
    recipes = own_recipes()
    names = sys.argv[1:] or [recipe.name for recipe in recipes]
    found = {one["recipe"]: one for one in (json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else ())}
    for recipe in (one for one in recipes if one.name in names):
        found[recipe.name] = record(recipe)
        print(json.dumps(found[recipe.name], indent=1), flush=True)
        known = [found[one.name] for one in recipes if one.name in found]
        with write_atomically(RECORD) as file:
            file.write(f"{json.dumps(known, indent=1, ensure_ascii=False)}\n".encode())


def own_recipes() -> list[Recipe]:
    """Return the recipes of this folder."""
    return [recipe for recipe in list_recipes(FOLDER) if not recipe.is_ours]


def record(recipe: Recipe) -> dict[str, Any]:
    """Return what building each release of a recipe gave."""
    outside = Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    said = {"recipe": recipe.name, "date": dt.datetime.now(dt.timezone.utc).date().isoformat()}
    with tempfile.TemporaryDirectory() as folder:
        try:
            releases = list_releases(recipe, RecipeChoice(), Path(folder), outside)
            return {**said, "releases": [_release(one, Path(folder) / f"dist-{one.tag}", outside) for one in releases]}
        except FatwheelError as error:
            return {**said, "failed": str(error).splitlines()}


def _release(release: RecipeRelease, folder: Path, outside: Outside) -> dict[str, Any]:
    before = cpu_seconds()
    planned = make.make_plan(release.config, outside)
    jobs = planned.plan.jobs
    made = building.build(planned, [job.name for job in jobs], folder, outside, files.CHECKS)
    wheels = [_wheel(one, job, planned, outside) for one, job in zip(made, jobs, strict=True)]
    return {
        "tag": release.tag,
        "title": release.title,
        "source": planned.plan.pins.commit or planned.plan.pins.source_sha256,
        "patches": [patch.reason for patch in release.request.patches],
        "cpu_seconds": round(cpu_seconds() - before),
        "wheels": wheels,
    }


def _wheel(made: Made, job: Job, planned: Planned, outside: Outside) -> dict[str, Any]:
    findings = files.audit_files([made.path], planned.plan, outside)
    return {
        "wheel": made.path.name,
        "bytes": made.receipt.size,
        **made.receipt.built_with._asdict(),
        "errors": [f"{found.rule}: {found.message}" for found in findings if found.level is Level.ERROR],
        "warnings": sorted({found.rule for found in findings if found.level is Level.WARNING}),
        "torch_symbols": symbols_of(made, job),
        "tried": NOT_LOADED if job.accelerator or job.torch else _try(made, planned, outside),
    }


def _try(made: Made, planned: Planned, outside: Outside) -> dict[str, str]:
    """Return how each trial of an installed wheel ended; empty if the recipe has none."""
    if not planned.plan.request.validate.imports:
        return {}
    tried = files.validate_files([made.path], planned.plan.request, files.Here(), outside)
    return {trial.what: trial.outcome.value for trial in tried[made.path.name]}


if __name__ == "__main__":
    main()
