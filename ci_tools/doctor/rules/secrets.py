"""Rules for the secrets that jobs name, and for those that they must pass to a called workflow."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ci_tools.doctor.report import DoctorFinding, RepositoryFacts, Unseen, Weight
from ci_tools.doctor.rules.unseen import report_unseen
from ci_tools.doctor.workflows import INHERITED, Workflow, WorkflowJob

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def check_workflow_secrets(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield the secrets that a workflow names outside of its jobs but nobody has set."""
    for workflow in facts.callers:
        yield from _missing(facts, workflow.secrets, workflow.path, "")


def report_unseen_secrets(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    """Yield a finding if the names of the secrets could not be read, and a job needs one."""
    is_named = any(job.secrets or job.passed for workflow in facts.callers for job in workflow.jobs)
    if is_named and isinstance(facts.secrets, Unseen):
        yield report_unseen("Settings, Secrets", facts.secrets)


def check_secrets(facts: RepositoryFacts, _: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield the secrets that a job names but nobody has set, and those that it must pass but does not."""
    yield from _missing(facts, job.secrets, job.where, job.environment)
    called = facts.called.get(job.call[:3]) if job.call else None
    if called is None or isinstance(called, Unseen):
        return
    if INHERITED in job.passed:
        yield from _missing(facts, called.required, job.where, job.environment)
        return
    for name in sorted({name.upper() for name in called.required} - {name.upper() for name in job.passed}):
        what, why = f"{job.name} does not pass the secret {name}", "GitHub refuses to start it"
        how = f"in that job: `secrets: {{ {name}: ${{{{ secrets.{name} }}}} }}`"
        yield DoctorFinding("secret-not-passed", Weight.ERROR, job.where, what, why, how)


def _missing(facts: RepositoryFacts, names: Iterable[str], where: str, environment: str) -> Iterator[DoctorFinding]:
    known = _job_secrets(facts, environment)
    for name in sorted({name.upper() for name in names} - known) if known is not None else ():
        of = f" --env {shlex.quote(environment)}" if environment else ""
        how = f"gh secret set {name} -R {facts.repository}{of}"
        what, why = f"there is no secret {name}", "the job gets an empty text instead"
        yield DoctorFinding("secret", Weight.ERROR, where, what, why, how)


def _job_secrets(facts: RepositoryFacts, environment: str) -> set[str] | None:
    """Return the secrets available to a job in an environment; None if they could not be read."""
    of_environment: frozenset[str] | Unseen = frozenset()
    if environment and (isinstance(facts.environments, Unseen) or "${{" in environment):
        return None
    if environment and not isinstance(facts.environments, Unseen):
        known = {name.lower(): one.secrets for name, one in facts.environments.items()}
        of_environment = known.get(environment.lower(), frozenset())
    if isinstance(facts.secrets, Unseen) or isinstance(of_environment, Unseen):
        return None
    return {name.upper() for name in facts.secrets | of_environment}
