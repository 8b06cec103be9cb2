"""Reads the newest runs of a repository's workflows, with the result of each of their jobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from github.GithubException import UnknownObjectException

from ci_tools.errors import InputError, nearest
from ci_tools.github.client import Hub, printable
from ci_tools.github.doctor.api import Api
from ci_tools.github.doctor.files import read_workflows
from ci_tools.model.names import Name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from github.Repository import Repository
    from github.Workflow import Workflow
    from github.WorkflowRun import WorkflowRun

__all__ = ["Job", "Outcome", "Run", "read_runs"]

PROPOSAL = "pull_request"  # the start of the events whose runs say something of a proposal only
FOLDER = ".github/workflows/"
FILE = re.compile(r"[A-Za-z0-9._-]+\.ya?ml")


class Outcome(Name):
    """The result of a run or a job; GitHub has ten words for it."""

    GOOD = "good"
    BAD = "bad"
    RUNNING = "running"
    NONE = "none"  # cancelled, or skipped: it says nothing


OUTCOMES = {
    None: Outcome.RUNNING,
    "success": Outcome.GOOD,
    "failure": Outcome.BAD,
    "timed_out": Outcome.BAD,
    "startup_failure": Outcome.BAD,
}


class Job(NamedTuple):
    """A job of a run."""

    name: str
    outcome: Outcome
    page: str  # its address


class Run(NamedTuple):
    """A run of a workflow."""

    workflow: str  # the name of its file
    number: int
    when: datetime
    outcome: Outcome
    page: str
    jobs: tuple[Job, ...]


def read_runs(hub: Hub, files: Sequence[str], most: int) -> tuple[Run, ...]:
    """Return the newest runs of workflows, at most `most` of each, the newest first; none of pull requests.

    Without `files`, the workflows are those of the default branch that use Fatwheel. Raises InputError for a workflow
    that the repository does not have, or if none uses Fatwheel.
    """
    with hub.opened(anonymous=True) as repository:
        names = tuple(files) or _find_callers(hub, repository)
        runs = [run for name in names for run in _runs_of(hub, _workflow(hub, repository, name), name, most)]
    return tuple(sorted(runs, key=lambda run: (run.when, run.number), reverse=True))


def _find_callers(hub: Hub, repository: Repository) -> tuple[str, ...]:
    workflows, unread = read_workflows(Api(hub, repository))
    found = tuple(one.path.removeprefix(FOLDER) for one in workflows if one.is_caller)
    if not found:
        more = f"; {unread[0][0]}: {unread[0][1]}" if unread else ""
        msg = f"no workflow of {hub.repository} uses Fatwheel{more}"
        raise InputError(msg, hint="name one: --workflow recipes.yml")
    return found


def _workflow(hub: Hub, repository: Repository, name: str) -> Workflow:
    def call(_: bool) -> Workflow | None:  # noqa: FBT001 - the hub says whether it asks again
        try:
            return repository.get_workflow(name) if FILE.fullmatch(name) else None
        except UnknownObjectException:
            return None

    found = hub.ask(call)
    if found is None:
        known = hub.ask(lambda _: [one.path.rpartition("/")[2] for one in repository.get_workflows()])
        msg = f'{hub.repository} has no workflow "{printable(name)}", {nearest(name, map(printable, known))}'
        raise InputError(msg)
    return found


def _runs_of(hub: Hub, workflow: Workflow, name: str, most: int) -> Iterator[Run]:
    for run in hub.ask(lambda _: list(_newest(workflow, most))):
        jobs = tuple(
            Job(printable(job.name), OUTCOMES.get(job.conclusion, Outcome.NONE), job.html_url)
            for job in hub.ask(lambda _, run=run: list(run.jobs()))  # type: ignore[misc] # of its newest attempt
        )
        outcome = OUTCOMES.get(run.conclusion, Outcome.NONE)
        yield Run(name, run.id, run.run_started_at, outcome, run.html_url, jobs)


def _newest(workflow: Workflow, most: int) -> Iterator[WorkflowRun]:
    """Yield at most `most` runs, which GitHub lists with the newest first."""
    count = 0
    for run in workflow.get_runs():
        if count == most:
            return
        if not run.event.startswith(PROPOSAL):
            count += 1
            yield run
