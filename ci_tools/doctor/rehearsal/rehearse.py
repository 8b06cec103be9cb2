"""Rehearses events: the runs that each starts, with their jobs, rights, publications and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.doctor.documents import items_of, table_of
from ci_tools.doctor.expressions import Unknown
from ci_tools.doctor.placed_jobs import ForetoldPlan, PlacedJob, RunStart, example_of, starts_of
from ci_tools.doctor.rehearsal.events import Asked, EventKind, RehearsedEvent, list_events, starts
from ci_tools.doctor.rehearsal.outcomes import (
    costs_of,
    environment_of,
    labels_of,
    list_published,
    minutes_of,
    name_secrets,
    waves_of,
)
from ci_tools.doctor.report import Unseen
from ci_tools.doctor.rules.releases import TAGS
from ci_tools.doctor.walk import Planner, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_tools.doctor.workflow_set import WorkflowSet


class RehearsedRun(NamedTuple):
    """A run of a workflow; of a re-run, the jobs that start again where one failed."""

    workflow: str
    condition: str  # of the event, that is not known before; empty: it certainly starts the run
    jobs: tuple[PlacedJob, ...]
    failed: str = ""


class Rehearsal(NamedTuple):
    """The runs that each event starts."""

    known: WorkflowSet
    events: tuple[tuple[RehearsedEvent, tuple[RehearsedRun, ...]], ...]
    unseen: tuple[str, ...]  # what could not be planned, and why


def rehearse(known: WorkflowSet, planner: Planner, asked: Asked) -> Rehearsal:
    """Return the runs of the events that are asked for; `planner` makes the plans of their configs.

    Raises InputError for an event's inputs that no workflow takes.
    """
    unseen = {f"{problem.where}: {problem.what}": None for problem in known.broken}

    def plan(step: str, environ: Mapping[str, str]) -> ForetoldPlan | Unseen:
        found = planner(step, environ)
        if isinstance(found, Unseen):
            unseen[f"{found.what}: {found.needs}"] = None
        return found

    plans = [plan("plan", {**environ, "GITHUB_EVENT_NAME": "push"}) for environ in _list_configs(known, planner)]
    tags = [found.tag for found in plans if isinstance(found, ForetoldPlan)]
    events = list_events(known, tags, asked)
    return Rehearsal(known, tuple((event, tuple(_list_runs(known, event, plan))) for event in events), tuple(unseen))


def _list_configs(known: WorkflowSet, planner: Planner) -> list[dict[str, str]]:
    """Return the configs that the runs of any event plan, as variables of the step that plans."""
    found: dict[tuple[str, str], None] = {}

    def note(step: str, environ: Mapping[str, str]) -> ForetoldPlan | Unseen:
        if step == "projects":
            return planner(step, environ)
        if step == "plan":
            found[(environ.get("WITH_CONFIG", ""), environ.get("WITH_REPOSITORY", ""))] = None
        return Unseen("", "")

    for file in known.started:
        tags = items_of(table_of(file.triggers.get("push")).get("tags"))
        of_tags = [RunStart("push", f"{TAGS}{example_of([str(tag)], '')}") for tag in tags]
        for start in dict.fromkeys([*of_tags, *starts_of(file)]):
            walk(known, file, start.contexts(file, known.repository), note)
    return [{"WITH_CONFIG": config, "WITH_REPOSITORY": repository} for config, repository in found]


def _list_runs(known: WorkflowSet, event: RehearsedEvent, planner: Planner) -> Iterator[RehearsedRun]:
    for file in known.started:
        condition = starts(file, event)
        if condition is None:
            continue
        contexts = event.contexts(file, known.repository)
        jobs = walk(known, file, contexts, planner, is_fork=event.is_fork, condition=condition)
        run = RehearsedRun(file.path, condition, tuple(job for job in jobs if not job.is_call))
        yield from _list_again(run) if event.kind is EventKind.RERUN else [run]


def _list_again(run: RehearsedRun) -> Iterator[RehearsedRun]:
    """Yield what a re-run of failed jobs starts for each job that may have failed: that job, and all after it.

    https://docs.github.com/en/actions/managing-workflow-runs/re-running-workflows-and-jobs
    """
    first = {job.id: job for job in reversed(run.jobs) if job.runs is not False}
    for name, failed in reversed(first.items()):
        after = (job for job in run.jobs if job.runs is not False and job.comes_after(failed))
        yield run._replace(failed=name, jobs=(failed, *after))


def to_json(found: Rehearsal) -> dict[str, Any]:
    """Return a rehearsal as JSON values, for scripts."""
    events = [
        {"kind": str(event.kind), "event": event.name, "ref": event.ref, "title": str(event), "file": event.file}
        | {"runs": [_run_values(found.known, run, is_fork=event.is_fork) for run in runs]}
        for event, runs in found.events
    ]
    return {"schema": 1, "repository": found.known.repository, "events": events, "unseen": list(found.unseen)}


def _run_values(known: WorkflowSet, run: RehearsedRun, *, is_fork: bool) -> dict[str, Any]:
    jobs = [
        {
            "job": job.id,
            "name": job.name,
            "row": job.row and {name: _known(value) for name, value in job.row.items()},
            "runs": job.runs,
            "condition": job.condition,
            "calls": job.unseen,
            "stage": job.stage,
            "runner": labels_of(job),
            "minutes": minutes_of(job),
            "rights": job.grants,
            "environment": environment_of(job),
            "secrets": [] if is_fork else name_secrets(job),
            "publishes": [one._asdict() for one in list_published(known, job)],
        }
        for job in run.jobs
    ]
    cost = [one._asdict() for one in costs_of(run.jobs)]
    head = {"workflow": run.workflow, "condition": run.condition, "failed": run.failed}
    return {**head, "jobs": jobs, "cost": cost, "waves": waves_of(run.jobs)}


def _known(value: Any) -> Any:  # noqa: ANN401 - of a matrix
    return None if isinstance(value, Unknown) else value
