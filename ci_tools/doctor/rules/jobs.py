"""Rules for each job that calls Fatwheel: its permissions, what starts it, where it publishes, and attestations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from ci_tools.catalog.targets import is_local, kind_of
from ci_tools.doctor.configs import ConfigOutline
from ci_tools.doctor.documents import (
    ATTEST_NEVER,
    ATTEST_PUBLIC,
    Grants,
    WorkflowDocument,
    access,
    condition_of,
    lacking,
    needed_to_publish,
    unite_grants,
)
from ci_tools.doctor.expressions import UNKNOWN, Open, evaluate_condition
from ci_tools.doctor.report import DoctorFinding, RepositoryFacts, Unseen, Weight, report, report_unseen
from ci_tools.doctor.rules.repository import newest_release, pinned_use
from ci_tools.doctor.workflow_set import WorkflowSet
from ci_tools.doctor.workflows import EXPRESSION, INHERITED, PUBLISHES, Workflow, WorkflowJob

PROPOSAL = re.compile(r"github\.head_ref|\.pull_request\.(?:head|number|merge)|\.workflow_run\.head_|refs/pull/")
# Contexts of a run that the pull request of a stranger starts, by its event.
FORK = Open({"full_name": "stranger/fork", "fork": True})
STRANGERS = {
    "pull_request_target": Open(pull_request=Open(head=Open(repo=FORK), user=Open(login="stranger"))),
    "workflow_run": Open(workflow_run=Open(event="pull_request", head_repository=FORK)),
}
BY_EVENT = re.compile(r"\bgithub\.(?:event_name|ref|ref_name|ref_type)\b")
KEYS = frozenset({"aws-access-key-id", "aws-secret-access-key"})
RESTRICTED: Grants = {"contents": "read", "packages": "read"}  # GitHub's defaults if the setting is `read`
PERMISSIVE: Grants = {"*": "write", "id-token": "none"}  # and if it is `write`


def check_trigger(_: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield a build that `pull_request_target` starts."""
    if "pull_request_target" in workflow.triggers and job.is_build:  # another job may label, say
        yield report("target/build", job.where, f"`pull_request_target` starts the build {job.name}")


def check_proposals(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield checkouts of a stranger's proposal in runs that have all rights and secrets, where its code may run."""
    for event in STRANGERS.keys() & set(file.triggers) if _starts_by_proposal(file, known) else ():
        github = {"event_name": event, "repository": known.repository or UNKNOWN, "event": STRANGERS[event]}
        holds = partial(evaluate_condition, contexts=Open(github=Open(github)), is_well=None)
        jobs = [job for job, value in file.jobs.items() if holds(condition_of(value)) is not False]
        steps = [step for step in file.steps if step.job in jobs and holds(step.condition) is not False]
        for step in steps:
            after = (one for one in steps if one.job == step.job and int(one.keys[-1]) > int(step.keys[-1]))
            is_proposal = PROPOSAL.search(str(step.given.get("ref", ""))) and step.action == "actions/checkout"
            if is_proposal and any(one.run or one.uses.startswith("./") for one in after):
                what = f"{step.job} checks out a proposal, and runs commands in it"
                yield report("target/checkout", file.where((*step.keys, "with", "ref")), what)


def _starts_by_proposal(file: WorkflowDocument, known: WorkflowSet) -> bool:
    """Whether a pull request may start a workflow, or one of those that it waits for."""
    before = [one for one in known.workflows if one.name in file.awaited]
    is_known = len(before) == len(file.awaited) and "pull_request_target" not in file.triggers
    return not is_known or any(event.startswith("pull_request") for one in before for event in one.triggers)


def check_folders(facts: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield the targets that are folders of the runner, which is discarded after the job."""
    if job.publishes or job.builds_one:
        for target in (one for one in targets_of(facts, workflow, job) or () if is_local(one)):
            yield report("folder", job.where, f"{job.name} publishes to {target}")


def check_logins(facts: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield jobs that publish to a bucket to which neither a role nor a key lets them log in."""
    for bucket in _list_closed_buckets(facts, workflow, job)[:1]:
        yield report("bucket-login", job.where, f"nothing lets {job.name} log in to {bucket}")


def _list_closed_buckets(facts: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> list[str]:
    """Return the buckets that a job publishes to with neither a role nor keys."""
    has_login = job.given.get("aws-role") or INHERITED in job.passed or {name.lower() for name in job.passed} >= KEYS
    targets = () if has_login or not _publishes(job) else targets_of(facts, workflow, job) or ()
    return [target for target in targets if (kind := kind_of(target)) and kind.has_login]


def _publishes(job: WorkflowJob) -> bool:  # a dry run, or a build without it, needs none
    """Whether a job calls what publishes: publish.yml, or platform.yml unless it says otherwise."""
    return job.publishes or (job.builds_one and job.given.get("publish", "false") != "false")


def check_attestation(facts: RepositoryFacts, _: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield a private repository's missing choice about attestations, or one that is impossible there."""
    chose = job.attest == ATTEST_NEVER or EXPRESSION in job.attest
    if not (facts.is_private and (job.builds_all or job.builds_one or job.builds_recipes)) or chose:
        return
    if job.attest == ATTEST_PUBLIC or not facts.is_organization:
        what = f"{job.name} would attest the files of a private repository"
        choice = "`attest: always` on that plan, else `attest: never`" if facts.is_organization else "`attest: never`"
        where = "in that job" if job.builds_recipes else "in that job, and in the one that publishes"
        yield report("attestation", job.where, what, f"{where}: {choice}")


def check_same_attestation(_: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield a job that publishes with another choice about attestations than the job that builds."""
    words = {one.attest for one in workflow.jobs if one.builds_all}
    known = words and not any(EXPRESSION in word for word in (*words, job.attest))
    of_this_run = job.publishes and not job.given.get("run-id")
    if of_this_run and known and (words == {ATTEST_NEVER}) != (job.attest == ATTEST_NEVER):
        how = f"in that job: `attest: {min(words)}`"
        yield report("attestation-differs", job.where, f"{job.name} has another `attest` than the job that builds", how)


def check_publisher(_: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield a job that uploads to PyPI by trusted publishing, but from no environment: a hint beside other tools."""
    if job.is_trusted_publisher and not job.environment:
        weight = Weight.WARNING if workflow.is_caller else Weight.HINT
        yield report("publisher", job.where, f"{job.name} uploads to PyPI without an environment", weight=weight)


def check_release_condition(_: RepositoryFacts, __: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield jobs whose environment or condition depends on the event that started the run, not on the release."""
    if not (job.publishes or job.is_trusted_publisher):
        return
    if BY_EVENT.search(job.environment):
        what = f"the environment of {job.name} depends on how the run was started"
        yield report("environment-by-event", job.where, what)
    # `any` says that something was built, not for which channel
    if BY_EVENT.search(job.condition) and "outputs." not in job.condition.replace("outputs.any", ""):
        yield report("published-by-event", job.where, f"{job.name} depends on the event, not on what was built")


CALLER_RULES = (
    check_trigger,
    check_publisher,
    check_release_condition,
    check_folders,
    check_logins,
    check_attestation,
    check_same_attestation,
)


def check_permissions(facts: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield the permissions that a job lacks, including those of the workflow it calls."""
    called = facts.called.get(job.call[:3]) if job.call and job.call.is_call else None
    if isinstance(called, Unseen):
        yield from [] if job.call and job.call.placeholders else [report_unseen(job.where, called)]
    elif job.call and job.call.is_call and called is None:  # the commit has no such file
        tags = facts.tags.get(job.call.repository.lower(), ())
        how = pinned_use(job.call, None if isinstance(tags, Unseen) else newest_release(tags, job.call.ref))
        yield report("not-there", job.where, f"{job.call} does not exist", how)
    inner = [(one.grants, one.needs) for one in called.jobs] if isinstance(called, Workflow) else []
    its_own = unite_grants(needs if grants is None else grants for grants, needs in inner)
    publishing = _publishing(facts, workflow, job)
    needs = unite_grants([job.needs, its_own, publishing or {}])
    granted = job.grants
    if granted is not None and access(granted, "*") == "write":
        yield report("write-all", job.where, f"{job.name} may write everything", _grant(needs))
    is_open = isinstance(facts.default, Unseen) or facts.default.access == "read"
    may = granted if granted is not None else (RESTRICTED if is_open else PERMISSIVE)  # unseen: the stricter one, then
    if missing := lacking(may, needs):
        is_sure = granted is not None or not isinstance(facts.default, Unseen)
        yield _lacks(job, missing, unite_grants([granted or {}, needs]), Weight.ERROR if is_sure else Weight.WARNING)
    targets = targets_of(facts, workflow, job)
    is_known = publishing is not None and targets is not None and not _list_closed_buckets(facts, workflow, job)
    if is_known and granted and access(granted, "*") == "none":  # read-all and write-all are another finding
        yield from _in_vain(job, lacking(needs, granted), needs)


def check_step_permissions(_: RepositoryFacts, __: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield the permissions that the steps of a job need, where it says what it may do and leaves them out."""
    if job.grants is not None and (missing := lacking(job.grants, job.needs)):
        yield _lacks(job, missing, unite_grants([job.grants, job.needs]), Weight.ERROR)


def _in_vain(job: WorkflowJob, more: Grants, needs: Grants) -> Iterator[DoctorFinding]:
    if more:
        what = f"{job.name} grants {', '.join(f'`{scope}: {given}`' for scope, given in more.items())}"
        yield report("permissions-in-vain", job.where, what, _grant(needs))


def _publishing(facts: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Grants | None:
    """Return the permissions a publishing job needs; None if it does not publish, or its workflow sets its own."""
    called = facts.called.get(job.call[:3]) if job.call else None
    if not _publishes(job) or not isinstance(called, Workflow):
        return None
    inner = (one for one in called.jobs if one.grants is None)  # they get what the caller grants
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
    kind = "ours" if job.call else "step"
    return report(f"permissions/{kind}", job.where, what, _grant(whole), weight=weight)


def _grant(grants: Grants) -> str:
    inside = ", ".join(f"{scope}: {wanted}" for scope, wanted in sorted(grants.items()) if scope != "*")
    return f"in that job: `permissions: {{ {inside} }}`" if inside else "in that job: `permissions: {}`"
