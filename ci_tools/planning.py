"""The first verb, plan: config, source, evidence, plan. It loads nothing that builds, so that it is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools import catalog as catalogs
from ci_tools import config, hooks, planfile, planner, source
from ci_tools import edition as editions
from ci_tools.errors import InputError, nearest
from ci_tools.evidence import gather
from ci_tools.model import SDIST, STABLE

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.catalog import Catalog
    from ci_tools.model import Edition, Evidence, Job, Plan, Request
    from ci_tools.outside import Outside
    from ci_tools.source import Tree

__all__ = ["Planned", "make_plan", "place_of_scripts"]


class Planned(NamedTuple):
    """A plan, the tree it was made from, the catalog it was made with, and what the tree showed."""

    plan: Plan
    tree: Tree
    catalog: Catalog
    evidence: Evidence

    def job(self, name: str) -> Job:
        """Return the job of that name; raise InputError where the plan has none."""
        jobs = {job.name: job for job in self.plan.jobs}
        if name not in jobs:
            msg = f'the plan has no job "{name}", {nearest(name, [*jobs, SDIST])}'
            raise InputError(msg)
        return jobs[name]


def make_plan(
    path: Path, outside: Outside, *, pinned: Path | None = None, edition: Edition = STABLE, tag: str = ""
) -> Planned:
    """Read the config at `path`, its source, and plan an edition of it: the one of a git tag where there is one.

    With `pinned`, a plan.json, the edition is that file's, and the plan made here must be the one in it: raises
    InputError with what differs.
    """
    catalog = catalogs.load()
    request = config.load(path, catalog)
    expected = planfile.read(pinned) if pinned else None
    commit = expected["pins"]["commit"] if expected else ""
    tree = source.open_tree(request, path.parent, outside, commit)
    hooks.refuse_missing(request, tree.root, tree.files)
    evidence = gather(request, tree, catalog, outside)
    if tag:
        edition = editions.of_tag(tag, request.release.tag, evidence.project.name, evidence.project.version)
    if expected:
        edition = planfile.edition_of(expected) or edition
    plan = planner.make_plan(request, evidence, catalog, edition)
    if expected:
        _refuse_difference(expected, plan, pinned)
    return Planned(plan, tree, catalog, evidence)


def place_of_scripts(request: Request, path: Path, outside: Outside) -> Path | None:
    """Return where the source of the config at `path` lies, if a command of its validation runs a script."""
    runs_any = any(hooks.script_of(command.run) for command in request.validate.commands)
    return source.open_tree(request, path.parent, outside).root if runs_any else None


def _refuse_difference(expected: dict[str, object], plan: Plan, pinned: Path | None) -> None:
    different = list(planfile.differences(expected, planfile.to_json(plan)))
    if different:
        shown = "\n".join(f"  {line}" for line in different[:8])
        msg = f"{pinned} is not the plan of what is here:\n{shown}"
        raise InputError(msg, hint="check out the plan's commit, or plan again")
