"""Rules for the environments that jobs name, for the secrets that they name, and those that they must pass on."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from ci_tools.doctor.report import (
    DoctorFinding,
    Fix,
    GithubEnvironment,
    Kind,
    RepositoryFacts,
    Unseen,
    report,
    report_unseen,
)
from ci_tools.doctor.workflows import INHERITED, Workflow, WorkflowJob

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
    # GitHub compares their names without case
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
        what, fix = f'there is no environment "{name}"', Fix(Kind.CREATE_ENVIRONMENT, name)
        yield report("environment", where, what, f"{page}: New environment", fix)
        return
    if not environment.has_approval and not environment.has_branches:  # either of them is enough
        what = f'the environment "{name}" is open to every branch, without approval'
        how = f"{page}: {name}: Required reviewers, or Deployment branches and tags"
        yield report("environment-open", where, what, how)
    if isinstance(environment.secrets, Unseen) and any(job.secrets for job in jobs):
        yield report_unseen(ENVIRONMENTS, environment.secrets)


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
    if INHERITED in job.passed:  # a secret that the caller itself lacks is passed empty
        yield from _missing(facts, called.required, job.where, job.environment)
        return
    for name in sorted({name.upper() for name in called.required} - {name.upper() for name in job.passed}):
        how = f"in that job: `secrets: {{ {name}: ${{{{ secrets.{name} }}}} }}`"
        yield report("secret-not-passed", job.where, f"{job.name} does not pass the secret {name}", how)


def _missing(facts: RepositoryFacts, names: Iterable[str], where: str, environment: str) -> Iterator[DoctorFinding]:
    known = _job_secrets(facts, environment)
    for name in sorted({name.upper() for name in names} - known) if known is not None else ():
        of = f" --env {shlex.quote(environment)}" if environment else ""
        yield report("secret", where, f"there is no secret {name}", f"gh secret set {name} -R {facts.repository}{of}")


def _job_secrets(facts: RepositoryFacts, environment: str) -> set[str] | None:
    """Return the secrets available to a job in an environment; None if they could not be read."""
    of_environment: frozenset[str] | Unseen = frozenset()
    if environment and (isinstance(facts.environments, Unseen) or "${{" in environment):  # only the run knows which
        return None
    if environment and not isinstance(facts.environments, Unseen):
        known = {name.lower(): one.secrets for name, one in facts.environments.items()}
        of_environment = known.get(environment.lower(), frozenset())  # GitHub would create it, empty
    if isinstance(facts.secrets, Unseen) or isinstance(of_environment, Unseen):
        return None
    return {name.upper() for name in facts.secrets | of_environment}


ENVIRONMENT_RULES = (check_environments, report_unseen_secrets, check_workflow_secrets)
