"""The rules of the doctor: they derive findings from the facts of a repository's settings and workflows.

Each finding says what is wrong, where, why it matters for a release, and how to fix it. A fact that the token could not
read is a finding, too: nothing passes unchecked.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from ci_tools.doctor.report import Weight
from ci_tools.doctor.rules.environments import check_environments
from ci_tools.doctor.rules.jobs import (
    check_attestation,
    check_folders,
    check_publisher,
    check_release_condition,
    check_same_attestation,
    check_trigger,
)
from ci_tools.doctor.rules.permissions import check_permissions
from ci_tools.doctor.rules.pins import check_pins
from ci_tools.doctor.rules.repository import (
    check_archival,
    check_callers,
    check_default_permissions,
    check_immutability,
    check_own_workflows,
    check_policy,
    check_states,
)
from ci_tools.doctor.rules.secrets import check_secrets, check_workflow_secrets, report_unseen_secrets

if TYPE_CHECKING:
    from ci_tools.doctor.report import DoctorFinding, RepositoryFacts


def diagnose(facts: RepositoryFacts) -> tuple[DoctorFinding, ...]:
    """Return all findings, the worst first."""
    of_jobs = (
        finding
        for workflow in facts.callers
        for job in workflow.jobs
        for rule in JOB_RULES
        for finding in rule(facts, workflow, job)
    )
    found = chain(*(rule(facts) for rule in RULES), of_jobs)
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: list(Weight).index(finding.weight)))


RULES = (
    check_archival,
    check_callers,
    check_policy,
    check_default_permissions,
    check_states,
    check_environments,
    report_unseen_secrets,
    check_workflow_secrets,
    check_pins,
    check_immutability,
    check_own_workflows,
)
JOB_RULES = (
    check_trigger,
    check_permissions,
    check_secrets,
    check_publisher,
    check_release_condition,
    check_folders,
    check_attestation,
    check_same_attestation,
)
