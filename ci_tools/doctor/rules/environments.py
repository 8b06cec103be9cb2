"""Rules for the environments that jobs name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.doctor.report import DoctorFinding, Fix, GithubEnvironment, Kind, RepositoryFacts, Unseen, Weight
from ci_tools.doctor.rules.unseen import report_unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.doctor.workflows import WorkflowJob

ENVIRONMENTS = "Settings, Environments"
CHOSEN = re.compile(r"\$\{\{[^'{}]*'nightly' && '([^'{}]+)' \|\| '' \}\}")  # an environment for all but nightlies


def check_environments(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield the environments that are missing, or open to everybody who can push a branch."""
    named: dict[str, list[WorkflowJob]] = {}
    for job in (job for workflow in facts.callers for job in workflow.jobs if job.environment):
        named.setdefault(job.environment, []).append(job)
    if isinstance(facts.environments, Unseen):
        if named:
            yield report_unseen(ENVIRONMENTS, facts.environments)
        return
    known = {name.lower(): environment for name, environment in facts.environments.items()}
    for text, jobs in named.items():
        chosen = CHOSEN.fullmatch(text)
        name = chosen[1] if chosen else text
        if "${{" in name:
            needs = "a person who checks it: its name is computed by the run"
            yield report_unseen(jobs[0].where, Unseen(f"the environment {name}", needs))
        else:
            yield from _environment(facts, name, jobs, known.get(name.lower()))


def _environment(
    facts: RepositoryFacts, name: str, jobs: list[WorkflowJob], environment: GithubEnvironment | None
) -> Iterator[DoctorFinding]:
    page, where = facts.settings("environments"), jobs[0].where
    if environment is None:
        what = f'there is no environment "{name}"'
        why = "GitHub creates it when the job runs, open to every branch"
        fix = Fix(Kind.CREATE_ENVIRONMENT, name)
        yield DoctorFinding("environment", Weight.ERROR, where, what, why, f"{page}: New environment", fix)
        return
    if not environment.has_approval and not environment.has_branches:
        what = f'the environment "{name}" is open to every branch, without approval'
        why = "anyone who can push a branch can use it to publish"
        how = f"{page}: {name}: Required reviewers, or Deployment branches and tags"
        yield DoctorFinding("environment-open", Weight.WARNING, where, what, why, how)
    if isinstance(environment.secrets, Unseen) and any(job.secrets for job in jobs):
        yield report_unseen(ENVIRONMENTS, environment.secrets)
