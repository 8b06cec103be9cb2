"""Reads the newest runs of a repository's workflows, with the result of each of their jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.doctor.files import read_workflows
from ci_tools.doctor.on_github import Api
from ci_tools.errors import InputError, RejectedInput, nearest
from ci_tools.formats import json_file
from ci_tools.github.client import ANONYMOUS, LOGIN, Hub, found_or_none, printable
from ci_tools.machine.storage import write_atomically
from ci_tools.model.names import Name

if TYPE_CHECKING:
    from github.Repository import Repository
    from github.Workflow import Workflow
    from github.WorkflowRun import WorkflowRun

PROPOSAL = "pull_request"  # the start of the events whose runs say something of a proposal only
FOLDER = ".github/workflows/"
FILE = re.compile(r"[A-Za-z0-9._-]+\.ya?ml")
COMPLETED = "completed"
RESERVE = 8  # requests that are left for the list of releases
ROWS = tuple[tuple[str, str, str], ...]  # of kept jobs: name, outcome, page


class RunOutcome(Name):
    """The result of a run or a job; GitHub has ten words for it."""

    GOOD = "good"
    BAD = "bad"
    RUNNING = "running"
    NONE = "none"  # cancelled, or skipped: it says nothing


OUTCOMES = {
    None: RunOutcome.RUNNING,
    "success": RunOutcome.GOOD,
    "failure": RunOutcome.BAD,
    "timed_out": RunOutcome.BAD,
    "startup_failure": RunOutcome.BAD,
}


class RunJob(NamedTuple):
    """A job of a run."""

    name: str
    outcome: RunOutcome
    page: str  # its address


class RepositoryRun(NamedTuple):
    """A run of a workflow."""

    workflow: str  # the name of its file
    number: int
    when: datetime
    outcome: RunOutcome
    page: str
    jobs: tuple[RunJob, ...]


def read_runs(hub: Hub, files: Sequence[str], most: int) -> tuple[RepositoryRun, ...]:
    """Return the newest runs of workflows, at most `most` of each, the newest first; none of pull requests.

    Without `files`, the workflows are those of the default branch that use Fatwheel. Raises InputError for a workflow
    that the repository does not have, or if none uses Fatwheel.
    """
    with hub.opened(anonymous=True) as repository:  # reading takes no token where the repository is public
        names = tuple(files) or _find_callers(hub, repository)
        found = [(name, run) for name in names for run in _list_newest(hub, _workflow(hub, repository, name), most)]
        found.sort(key=lambda pair: (pair[1].run_started_at, pair[1].id), reverse=True)
        return tuple(_read_jobs(hub, repository, found))


def _find_callers(hub: Hub, repository: Repository) -> tuple[str, ...]:
    workflows, unread = read_workflows(Api(hub, repository))
    found = tuple(one.path.removeprefix(FOLDER) for one in workflows if one.is_caller)
    if not found:
        more = f"; {unread[0][0]}: {unread[0][1]}" if unread else ""
        msg = f"no workflow of {hub.repository} uses Fatwheel{more}"
        raise InputError(msg, hint="name one: --workflow recipes.yml")
    return found


def _workflow(hub: Hub, repository: Repository, name: str) -> Workflow:
    is_name = FILE.fullmatch(name)  # a number would name a workflow, too
    found = hub.ask(lambda _: found_or_none(lambda: repository.get_workflow(name))) if is_name else None
    if found is None:
        known = hub.ask(lambda _: [one.path.rpartition("/")[2] for one in repository.get_workflows()])
        msg = f'{hub.repository} has no workflow "{printable(name)}", {nearest(name, map(printable, known))}'
        raise InputError(msg)
    return found


def _list_newest(hub: Hub, workflow: Workflow, most: int) -> list[WorkflowRun]:
    """Return at most `most` runs, which GitHub lists with the newest first."""

    def is_wanted(run: WorkflowRun) -> bool:
        return not run.event.startswith(PROPOSAL)

    return hub.ask(lambda _: list(islice(filter(is_wanted, workflow.get_runs()), most)))


def _read_jobs(hub: Hub, repository: Repository, found: Sequence[tuple[str, WorkflowRun]]) -> Iterator[RepositoryRun]:
    """Yield each run with the jobs of its newest attempt, which take a request unless they are kept here.

    Where GitHub answers no more requests this hour, older runs have no jobs, and a line says so: their own outcomes are
    known from the list.
    """
    kept, left = _KeptJobs(hub.outside.cache / "runs" / hub.repository.replace("/", "+").lower()), 0
    for name, run in found:
        jobs = kept.read(run)
        if jobs is None and _has_requests(repository):
            jobs = tuple(
                RunJob(printable(job.name), OUTCOMES.get(job.conclusion, RunOutcome.NONE), job.html_url)
                for job in hub.ask(lambda _, run=run: list(run.jobs()))  # type: ignore[misc]
            )
            kept.write(run, jobs)
        left += jobs is None
        outcome = OUTCOMES.get(run.conclusion, RunOutcome.NONE)
        yield RepositoryRun(name, run.id, run.run_started_at, outcome, run.html_url, jobs or ())
    if left:
        why = "for now GitHub answers no more requests of this machine or token"
        hint = "" if hub.has_token else f"; {ANONYMOUS}: {LOGIN}"
        hub.outside.reporter.say(f"the jobs of {left} of {len(found)} runs are not read: {why}{hint}")


def _has_requests(repository: Repository) -> bool:
    """Whether GitHub answers some more requests this hour, by what it said last; what follows needs a few, too."""
    remaining, limit = repository.requester.rate_limiting
    return limit < 0 or remaining > RESERVE  # nothing was asked before


class _KeptJobs(NamedTuple):
    """The jobs of finished runs, in a folder: an attempt that has ended never changes."""

    folder: Path

    def read(self, run: WorkflowRun) -> tuple[RunJob, ...] | None:
        """Return the jobs of a run; None if they are not here, or not whole."""
        try:
            rows = json_file.structure(json_file.parse(self._path(run).read_bytes()), ROWS, "jobs")
            return tuple(RunJob(name, RunOutcome(word), page) for name, word, page in rows)
        except (OSError, ValueError, RejectedInput):  # not kept, or by another version
            return None

    def write(self, run: WorkflowRun, jobs: Sequence[RunJob]) -> None:
        """Keep the jobs of a run that has ended."""
        if run.status == COMPLETED:  # then an attempt never changes
            self.folder.mkdir(parents=True, exist_ok=True)
            with write_atomically(self._path(run)) as file:  # two commands may run at once
                file.write(json.dumps([[job.name, str(job.outcome), job.page] for job in jobs]).encode())

    def _path(self, run: WorkflowRun) -> Path:
        return self.folder / f"{run.id}-{run.run_attempt}.json"
