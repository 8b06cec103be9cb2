"""Workflows on the tests' GitHub, their runs, and the jobs of these."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.servers.github_answers import API, REPOSITORY, Answer, Asked, missing, page_of
from tests.servers.github_description import blank_of
from tests.servers.github_repository import GitHub

RUN_TIMES = ("created_at", "updated_at", "run_started_at")


@dataclass(slots=True, eq=False)
class Ran:
    """One run: what began it and when, its conclusion, None while it runs, and those of its jobs by name."""

    number: int
    workflow: str
    when: str
    conclusion: str | None
    event: str
    jobs: Mapping[str, str | None]
    attempt: int = 1


@dataclass(slots=True, eq=False)
class Workflows:
    """The workflows of the one repository, and their runs, the oldest first."""

    files: list[str] = field(default_factory=list)
    runs: list[Ran] = field(default_factory=list)

    def run(
        self, when: str, jobs: Mapping[str, str | None], *, workflow: str = "recipes.yml", event: str = "schedule"
    ) -> Ran:
        """Let a workflow run: it succeeds if all of its jobs did."""
        words = set(jobs.values())
        conclusion = "failure" if "failure" in words else None if None in words else "success"
        ran = Ran(1000 + len(self.runs), workflow, when, conclusion, event, jobs)
        self.files += [workflow] * (workflow not in self.files)
        self.runs.append(ran)
        return ran


def settle(hub: GitHub) -> Workflows:
    """Give the server's repository workflows, and return them."""
    workflows = Workflows()
    hub.routes[:0] = [(method, path, functools.partial(route, workflows)) for method, path, route in ROUTES]
    return workflows


def list_workflows(workflows: Workflows, hub: GitHub, asked: Asked) -> Answer:
    return page_of(asked, "workflows", [_workflow(hub, workflows, name) for name in workflows.files])


def get_workflow(workflows: Workflows, hub: GitHub, _: Asked, name: str) -> Answer:
    return Answer(200, _workflow(hub, workflows, name)) if name in workflows.files else missing()


def list_runs(workflows: Workflows, hub: GitHub, asked: Asked, number: str) -> Answer:
    name = workflows.files[int(number) - 1]
    runs = [_run(hub, ran) for ran in reversed(workflows.runs) if ran.workflow == name]
    return page_of(asked, "workflow_runs", runs)


def list_jobs(workflows: Workflows, hub: GitHub, asked: Asked, number: str) -> Answer:
    ran = next((one for one in workflows.runs if one.number == int(number)), None)
    if ran is None:
        return missing()
    jobs = [_job(hub, ran, index, name) for index, name in enumerate(ran.jobs, 1)]
    return page_of(asked, "jobs", jobs)


def _workflow(hub: GitHub, workflows: Workflows, name: str) -> dict[str, Any]:
    number = workflows.files.index(name) + 1
    own = {"id": number, "name": name, "path": f".github/workflows/{name}"}
    document: dict[str, Any] = blank_of("workflow")
    return document | own | {"url": f"{hub.url}{API}/actions/workflows/{number}"}


def _run(hub: GitHub, ran: Ran) -> dict[str, Any]:
    own = f"{hub.url}{API}/actions/runs/{ran.number}"
    document: dict[str, Any] = blank_of("workflow-run")
    return document | {
        "id": ran.number,
        "event": ran.event,
        "run_attempt": ran.attempt,
        "status": "completed" if ran.conclusion else "in_progress",
        "conclusion": ran.conclusion,
        "url": own,
        "jobs_url": f"{own}/jobs",
        "html_url": f"{hub.url}/{REPOSITORY}/actions/runs/{ran.number}",
        **dict.fromkeys(RUN_TIMES, ran.when),
    }


def _job(hub: GitHub, ran: Ran, index: int, name: str) -> dict[str, Any]:
    page = f"{hub.url}/{REPOSITORY}/actions/runs/{ran.number}/job/{index}"
    document: dict[str, Any] = blank_of("job")
    conclusion = ran.jobs[name]
    status = "completed" if conclusion else "in_progress"
    return document | {"name": name, "status": status, "conclusion": conclusion, "html_url": page}


ROUTES: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
    ("GET", rf"{API}/actions/workflows", list_workflows),
    ("GET", rf"{API}/actions/workflows/(\d+)/runs", list_runs),
    ("GET", rf"{API}/actions/workflows/([^/]+)", get_workflow),
    ("GET", rf"{API}/actions/runs/(\d+)/jobs", list_jobs),
)
