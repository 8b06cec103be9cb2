"""Rules for the permissions of each job, including those that the workflow it calls needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.doctor.configs import ConfigOutline
from ci_tools.doctor.grants import Grants, access, lacking, needed_to_publish, unite_grants
from ci_tools.doctor.report import DoctorFinding, RepositoryFacts, Unseen, Weight, report_unseen
from ci_tools.doctor.rules.pins import newest_release, pinned_use
from ci_tools.doctor.workflows import EXPRESSION, PUBLISHES, Workflow, WorkflowJob

if TYPE_CHECKING:
    from collections.abc import Iterator


RESTRICTED: Grants = {"contents": "read", "packages": "read"}  # GitHub's defaults if the setting is `read`
PERMISSIVE: Grants = {"*": "write", "id-token": "none"}  # and if it is `write`


def check_permissions(facts: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield the permissions that a job lacks, including those of the workflow it calls."""
    called = facts.called.get(job.call[:3]) if job.call and job.call.is_call else None
    if isinstance(called, Unseen):
        yield report_unseen(job.where, called)
    elif job.call and job.call.is_call and called is None:
        tags = facts.tags.get(job.call.repository.lower(), ())
        how = pinned_use(job.call, None if isinstance(tags, Unseen) else newest_release(tags, job.call.ref))
        what = f"{job.call} does not exist"
        yield DoctorFinding("not-there", Weight.ERROR, job.where, what, "the run ends before its first job", how)
    its_own = _caller_grants(called) if isinstance(called, Workflow) else {}
    publishing = _publishing(facts, workflow, job)
    needs = unite_grants([job.needs, its_own, publishing or {}])
    granted = workflow.grants_of(job)
    if granted is not None and access(granted, "*") == "write":
        what, why = f"{job.name} may write everything", "its steps need only a small part of that"
        yield DoctorFinding("write-all", Weight.WARNING, job.where, what, why, _grant(needs))
    is_open = isinstance(facts.default, Unseen) or facts.default.access == "read"
    may = granted if granted is not None else (RESTRICTED if is_open else PERMISSIVE)
    if missing := lacking(may, needs):
        is_sure = granted is not None or not isinstance(facts.default, Unseen)
        yield _lacks(job, missing, unite_grants([granted or {}, needs]), Weight.ERROR if is_sure else Weight.WARNING)
    targets = targets_of(facts, workflow, job)
    if publishing is not None and targets is not None and granted and access(granted, "*") == "none":
        yield from _in_vain(job, lacking(needs, granted), needs)


def check_step_permissions(_: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield the permissions that the steps of a job need, where it says what it may do and leaves them out."""
    granted = workflow.grants_of(job)
    if granted is not None and (missing := lacking(granted, job.needs)):
        yield _lacks(job, missing, unite_grants([granted, job.needs]), Weight.ERROR)


def _in_vain(job: WorkflowJob, more: Grants, needs: Grants) -> Iterator[DoctorFinding]:
    if more:
        what = f"{job.name} grants {', '.join(f'`{scope}: {given}`' for scope, given in more.items())}"
        why = "all steps that publish get what is granted, and none of the targets needs that"
        yield DoctorFinding("permissions-in-vain", Weight.HINT, job.where, what, why, _grant(needs))


def _publishing(facts: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Grants | None:
    """Return the permissions a publishing job needs; None if it does not publish, or its workflow sets its own."""
    called = facts.called.get(job.call[:3]) if job.call else None
    publishes = job.publishes or (job.builds_one and job.given.get("publish", "false") != "false")
    if not publishes or not isinstance(called, Workflow):
        return None
    inner = (one for one in called.jobs if called.grants_of(one) is None)
    if not any(job.publishes or PUBLISHES.search(one.call.path if one.call else "") for one in inner):
        return None  # an older Fatwheel, whose publish.yml set its own permissions
    return needed_to_publish(job.given, targets_of(facts, workflow, job) or ())


def targets_of(facts: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> tuple[str, ...] | None:
    """Return the addresses that a job publishes to; None if they are unknown before a run."""
    if named := job.given.get("to", ""):
        return None if EXPRESSION in named else tuple(named.split())
    configs = {one.config for one in workflow.jobs if one.builds_all} or {job.config}
    found = facts.configs.get(next(iter(configs))) if len(configs) == 1 else None
    return found.targets if isinstance(found, ConfigOutline) else None


def _lacks(job: WorkflowJob, missing: Grants, whole: Grants, weight: Weight) -> DoctorFinding:
    what = f"{job.name} lacks {', '.join(f'`{scope}: {wanted}`' for scope, wanted in missing.items())}"
    why = 'GitHub answers HTTP 403, "Resource not accessible by integration"'
    why = "GitHub refuses to start it: the called workflow asks for more than it is allowed" if job.call else why
    return DoctorFinding("permissions", weight, job.where, what, why, _grant(whole))


def _grant(grants: Grants) -> str:
    inside = ", ".join(f"{scope}: {wanted}" for scope, wanted in sorted(grants.items()) if scope != "*")
    return f"in that job: `permissions: {{ {inside} }}`" if inside else "in that job: `permissions: {}`"


def _caller_grants(called: Workflow) -> Grants:
    """Return the permissions that a called workflow needs from its caller: the union over its jobs."""
    granted = ((called.grants_of(job), job.needs) for job in called.jobs)
    return unite_grants(needs if grants is None else grants for grants, needs in granted)
