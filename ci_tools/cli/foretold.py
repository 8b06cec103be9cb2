"""Predicts the plans of a rehearsal: the outputs of a run's first job, by the config and source of the checkout."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.cli.values import share
from ci_tools.cli.verbs import parser_of
from ci_tools.config import location
from ci_tools.config.native import read_archs
from ci_tools.doctor.placed_jobs import ForetoldPlan
from ci_tools.doctor.report import Unseen
from ci_tools.errors import InputError, MachineError
from ci_tools.github.projects import list_projects
from ci_tools.github.step import TAGS, step_of
from ci_tools.machine.context import Outside
from ci_tools.model import edition as editions
from ci_tools.model.names import VersionText
from ci_tools.model.plan import Plan
from ci_tools.model.request import STABLE, UNTAGGED, Channel, Edition, Run
from ci_tools.model.versions import parse_version, read_version
from ci_tools.plan import make, matrix, plan_file, planner
from ci_tools.plan.make import Planned
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import releases_of_all
from ci_tools.recipes.shelf import CALLERS, find_recipe, list_recipes

if TYPE_CHECKING:
    import argparse


class Foreteller(NamedTuple):
    """Makes the plans of one checkout: each config is read once, for every edition."""

    root: Path
    outside: Outside
    made: dict[tuple[Path, Run], Planned]

    def foretell(self, step: str, environ: Mapping[str, str]) -> ForetoldPlan | Unseen:
        """Return what the step `plan` or `due` makes of these variables; raise InputError where it would fail."""
        try:
            makers = {"plan": self._plan, "due": self._due, "projects": self._list_projects}
            return makers[step](environ)  # `walk` asks for no other step
        except MachineError as error:  # no network, say: the rest can still be rehearsed
            return Unseen(
                f"the outputs of the step {step} with {environ.get('WITH_CONFIG') or 'the default config'}",
                error.message,
            )

    def _list_projects(self, environ: Mapping[str, str]) -> ForetoldPlan:
        """Return the projects of a repository with several configs, as the step itself lists them."""
        named = {name: text for name, text in environ.items() if name != "WITH_FOLDER"}  # of the run only
        words = step_of("projects", named, "", parser_of).arguments
        options = parser_of("ci projects").parse_args(words[2:])  # without "ci projects"
        listed = list_projects(options.configs, options.artifacts)
        return ForetoldPlan("", "", "", "", "", (), 0, {"projects": {"projects": json.dumps(listed)}})

    def _due(self, environ: Mapping[str, str]) -> ForetoldPlan:
        """Return all releases that recipes ask for: fewer are due where some are published, more by upstream's news."""

        def listed(name: str) -> tuple[str, ...]:
            return tuple(environ.get(f"WITH_{name}", "").replace(",", " ").split())  # a workflow's input may use either

        archs = read_archs(listed("ARCHS"), self.outside)
        choice = RecipeChoice("".join(listed("VERSION")), listed("PYTHON"), listed("TORCH"), listed("CUDA"), archs)
        shelf = self.root / CALLERS
        recipes = [find_recipe(name, shelf) for name in listed("RECIPES")] or list_recipes(shelf)
        releases = [one for one in releases_of_all(recipes, choice, self.outside) if not one.cannot]  # never due
        builders = [one.request.platforms[0] for one in releases]  # a recipe builds for one platform
        rows = [
            {"tag": one.tag, "runner": plan_file.runs_on(builder.runner), "minutes": builder.minutes}
            for one, builder in zip(releases, builders, strict=True)
        ]
        words = f"up to {len(rows)} releases of recipes, and those of upstream's news"
        outputs = {"due": {"due": json.dumps({"include": rows})}}
        return ForetoldPlan("", words, "", str(Channel.STABLE), "", (), 0, outputs, prefix="recipe")

    def _plan(self, environ: Mapping[str, str]) -> ForetoldPlan | Unseen:
        today = datetime.now(timezone.utc).strftime("%Y%m%d")
        words = step_of("plan", {"GITHUB_REPOSITORY": "", **environ}, today, parser_of).arguments
        options = parser_of("plan").parse_args(words[1:])  # without "plan"
        if repository := environ.get("WITH_REPOSITORY"):
            return Unseen(f"the plan of {repository}", "its source, which is not in this checkout")
        config = self.root / options.config if options.config else location.find_config(self.root, self.root)
        run = Run(tuple(options.torch), tuple(options.gpu_runner), tuple(options.to))
        planned = self._read(config, run)
        tag = options.ref.removeprefix(TAGS) if (options.ref or "").startswith(TAGS) else ""
        try:
            found = self._foretell(planned, _edition(planned, options, tag), options.only, tag=tag)
        except InputError:  # the tag may be of another config, as in a monorepo
            owner = self._owner_of(tag, config)
            if not owner:
                raise
            return self._foretell(planned, UNTAGGED, options.only, left=f"the tag is of {owner}")
        if options.untagged:  # only the run compares a pull request with its base
            del found.outputs["plan"]["changed"]
        return found

    def _read(self, config: Path, run: Run) -> Planned:
        if (config, run) not in self.made:  # reading a source may take minutes, a new edition none
            with self.outside.reporter.step(f"plan {config.relative_to(self.root)}"):
                self.made[config, run] = make.make_plan(config, self.outside, edition=UNTAGGED, run=run)
        return self.made[config, run]

    def _owner_of(self, tag: str, config: Path) -> str:
        """Return the other config whose tag this is."""
        for (path, _), planned in self.made.items():
            plain = tag.partition("-rc")[0]  # a candidate belongs to the config of its release
            if path != config and plain == _tag(planned):
                return path.relative_to(self.root).as_posix()
        return ""

    def _foretell(
        self, planned: Planned, edition: Edition, only: str | None, *, tag: str = "", left: str = ""
    ) -> ForetoldPlan:
        version = _version(planned, tag) if tag else planned.evidence.project.version
        project = planned.evidence.project._replace(version=VersionText(version))
        evidence = replace(planned.evidence, project=project)
        whole = planner.make_plan(planned.plan.request, evidence, planned.catalog, edition)
        part = share(whole, only)
        names = [*part.makers]
        return ForetoldPlan(
            config=str(planned.config and planned.config.relative_to(self.root)),
            package=whole.project.name,
            version=whole.project.version,
            channel=matrix.channel_of(whole),
            tag=_tag(planned),
            targets=whole.request.publish.targets,
            files=len(names) + bool(part.sdist),
            outputs=_outputs(part, whole, left),
            left=left,
        )


def _edition(planned: Planned, options: argparse.Namespace, tag: str) -> Edition:
    if options.nightly:
        return editions.nightly(options.nightly)
    release, project = planned.plan.request.release, planned.plan.project
    if not tag:
        return STABLE if release.untagged and not options.untagged else UNTAGGED
    return editions.parse_tag(tag, release.tag, project.name, _version(planned, tag))


def _version(planned: Planned, tag: str = "") -> str:
    """Return the version that a tag releases, by default the next one; of many projects the tag decides it."""
    project = planned.plan.project
    if not project.told:
        return project.version
    known = {"name": project.name, "version": "\0"}  # which no tag has: it parts the template there
    before, _, after = editions.tag_of(STABLE, planned.plan.request.release.tag, known).partition("\0")
    found = re.fullmatch(f"{re.escape(before)}(.+?){re.escape(after)}(?:-rc\\d+)?", tag)
    # Of a development version, the next release is its base: PEP 440.
    return found[1] if found and read_version(found[1]) else parse_version(project.version).base_version


def _tag(planned: Planned) -> str:
    known = {"name": planned.plan.project.name, "version": _version(planned)}
    return editions.tag_of(STABLE, planned.plan.request.release.tag, known)


def _outputs(part: Plan, whole: Plan, left: str) -> dict[str, dict[str, str]]:
    """Return the outputs of the steps that a plan determines, where every wheel is built."""
    if left:
        return {"plan": matrix.no_outputs(left)}
    gathered = {"package": whole.project.name, "version": whole.project.version, "channel": matrix.channel_of(whole)}
    return {
        "plan": matrix.outputs(part),
        "trials": matrix.trials(part, {name for site in part.sites for name in site.files}, whole).outputs(),
        "gather": {**gathered, "pypi": json.dumps(bool(plan_file.pypi_files(part)))},
    }
