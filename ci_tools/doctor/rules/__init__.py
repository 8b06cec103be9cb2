"""The rules of the doctor: they derive findings from the facts of a repository's settings and workflows.

Each finding says what is wrong, where, why it matters for a release, and how to fix it. A fact that the token could not
read is a finding, too: nothing passes unchecked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ci_tools.doctor.report import DoctorFinding, RepositoryFacts, Unseen, Weight, report
from ci_tools.doctor.rules.artifacts import ARTIFACT_RULES
from ci_tools.doctor.rules.calls import CALL_RULES
from ci_tools.doctor.rules.environments import ENVIRONMENT_RULES, check_secrets
from ci_tools.doctor.rules.expressions import TEXT_RULES
from ci_tools.doctor.rules.jobs import (
    CALLER_RULES,
    check_permissions,
    check_proposals,
    check_publisher,
    check_step_permissions,
)
from ci_tools.doctor.rules.releases import RELEASE_RULES
from ci_tools.doctor.rules.repository import SETTING_RULES, check_own_workflows, check_pins
from ci_tools.doctor.rules.runners import RUNNER_RULES
from ci_tools.doctor.workflow_set import WorkflowSet


def diagnose(facts: RepositoryFacts) -> tuple[DoctorFinding, ...]:
    """Return all findings, the worst first."""
    return _sort(chain(*(rule(facts) for rule in RULES), _diagnose_jobs(facts), diagnose_files(facts.files)))


def diagnose_checkout(facts: RepositoryFacts) -> tuple[DoctorFinding, ...]:
    """Return the findings for which nobody has to ask GitHub, the worst first."""
    found = chain(check_pins(facts), check_own_workflows(facts), _diagnose_jobs(facts), diagnose_files(facts.files))
    settings = facts.policy
    return _sort(one for one in found if not (isinstance(settings, Unseen) and one.how == f"needs {settings.needs}"))


def _sort(found: Iterable[DoctorFinding]) -> tuple[DoctorFinding, ...]:
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: list(Weight).index(finding.weight)))


def _diagnose_jobs(facts: RepositoryFacts) -> Iterator[DoctorFinding]:
    for workflow in facts.workflows:
        for job in workflow.jobs:
            for rule in JOB_RULES if workflow.is_caller else OTHER_JOB_RULES:  # the others speak of Fatwheel
                yield from rule(facts, workflow, job)


def diagnose_files(known: WorkflowSet | None) -> Iterator[DoctorFinding]:
    """Yield what is wrong with workflow and action files, by themselves and in the runs that they make."""
    if known is None:
        return
    for problem in known.broken:
        yield report("broken", problem.where, problem.what)
    for file in known.files.values():
        for rule in FILE_RULES:
            yield from rule(file, known)


FILE_RULES = (check_proposals, *TEXT_RULES, *CALL_RULES, *ARTIFACT_RULES, *RUNNER_RULES, *RELEASE_RULES)
RULES = (*SETTING_RULES, *ENVIRONMENT_RULES, check_pins, check_own_workflows)
JOB_RULES = (*CALLER_RULES, check_permissions, check_secrets)
OTHER_JOB_RULES = (check_step_permissions, check_publisher)  # of a workflow that does not call Fatwheel
