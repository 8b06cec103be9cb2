"""Rules for each job of a workflow that calls Fatwheel: what starts it, where it publishes, and attestations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.catalog.targets import is_local
from ci_tools.doctor.grants import ATTEST_NEVER, ATTEST_PUBLIC
from ci_tools.doctor.report import DoctorFinding, RepositoryFacts, Weight
from ci_tools.doctor.rules.permissions import targets_of
from ci_tools.doctor.workflows import EXPRESSION, Workflow, WorkflowJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.doctor.documents import WorkflowDocument
    from ci_tools.doctor.workflow_set import WorkflowSet

PROPOSAL = re.compile(r"github\.head_ref|\.pull_request\.(?:head|number|merge)|\.workflow_run\.head_|refs/pull/")
BY_EVENT = re.compile(r"\bgithub\.(?:event_name|ref|ref_name|ref_type)\b")


def check_trigger(_: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield a build that `pull_request_target` starts."""
    if "pull_request_target" in workflow.triggers and job.is_build:
        what = f"`pull_request_target` starts the build {job.name}"
        why = "code of a stranger's pull request is built with your secrets and a token that may write"
        yield DoctorFinding("target", Weight.ERROR, job.where, what, why, "use `on: pull_request` instead")


def check_proposals(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield checkouts of a proposal in runs that have all rights and secrets, where its code may run."""
    for step in file.steps if {"pull_request_target", "workflow_run"} & set(file.triggers) else ():
        after = file.steps_of(step.job)[int(step.keys[-1]) + 1 :]
        is_proposal = PROPOSAL.search(str(step.given.get("ref", ""))) and step.action == "actions/checkout"
        if is_proposal and any(one.run or one.uses.startswith("./") for one in after):
            what = f"{step.job} checks out a proposal, and runs commands in it"
            why = "code of a stranger's pull request may run with your secrets and a token that may write"
            where = file.where((*step.keys, "with", "ref"))
            yield DoctorFinding("target", Weight.WARNING, where, what, why, "use `on: pull_request` for it")


def check_folders(facts: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield the targets that are folders of the runner, which is discarded after the job."""
    if job.publishes or job.builds_one:
        for target in (one for one in targets_of(facts, workflow, job) or () if is_local(one)):
            what = f"{job.name} publishes to {target}"
            why = "it is a folder of the runner, which is deleted with it; the run fails there"
            how = "in that job: `to:` with the targets that are elsewhere"
            yield DoctorFinding("folder", Weight.ERROR, job.where, what, why, how)


def check_attestation(facts: RepositoryFacts, _: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield a private repository's missing choice about attestations, or one that is impossible there."""
    chose = job.attest == ATTEST_NEVER or EXPRESSION in job.attest
    if not (facts.is_private and (job.builds_all or job.builds_one or job.builds_recipes)) or chose:
        return
    if job.attest == ATTEST_PUBLIC or not facts.is_organization:
        what = f"{job.name} would attest the files of a private repository"
        why = "GitHub attests those only on the plan Enterprise Cloud, which an organisation may have"
        choice = "`attest: always` on that plan, else `attest: never`" if facts.is_organization else "`attest: never`"
        where = "in that job" if job.builds_recipes else "in that job, and in the one that publishes"
        how = f"{where}: {choice}"
        yield DoctorFinding("attestation", Weight.ERROR, job.where, what, why, how)


def check_same_attestation(_: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield a job that publishes with another choice about attestations than the job that builds."""
    words = {one.attest for one in workflow.jobs if one.builds_all}
    known = words and not any(EXPRESSION in word for word in (*words, job.attest))
    of_this_run = job.publishes and not job.given.get("run-id")
    if of_this_run and known and (words == {ATTEST_NEVER}) != (job.attest == ATTEST_NEVER):
        what = f"{job.name} has another `attest` than the job that builds"
        why = "it expects an attestation that does not exist, or ignores one that does"
        how = f"in that job: `attest: {min(words)}`"
        yield DoctorFinding("attestation-differs", Weight.ERROR, job.where, what, why, how)


def check_publisher(_: RepositoryFacts, workflow: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield a job that uploads to PyPI by trusted publishing, but from no environment: a hint beside other tools."""
    if job.is_trusted_publisher and not job.environment:
        what = f"{job.name} uploads to PyPI without an environment"
        why = "PyPI then accepts uploads of the workflow from every branch, without approval"
        how = "in that job: `environment: pypi`, and the same name in the project's publisher on PyPI"
        weight = Weight.WARNING if workflow.is_caller else Weight.HINT
        yield DoctorFinding("publisher", weight, job.where, what, why, how)


def check_release_condition(_: RepositoryFacts, __: Workflow, job: WorkflowJob) -> Iterator[DoctorFinding]:
    """Yield jobs whose environment or condition depends on the event that started the run, not on the release."""
    if not (job.publishes or job.is_trusted_publisher):
        return
    if BY_EVENT.search(job.environment):
        what = f"the environment of {job.name} depends on how the run was started"
        why = "a tag can also be released by hand or from a branch, and then without approval"
        how = "environment: ${{ needs.wheels.outputs.channel != 'nightly' && 'release' || '' }}"
        yield DoctorFinding("environment-by-event", Weight.ERROR, job.where, what, why, f"in that job: `{how}`")
    # `any` says that something was built, not for which channel
    if BY_EVENT.search(job.condition) and "outputs." not in job.condition.replace("outputs.any", ""):
        what = f"{job.name} depends on the event, not on what was built"
        why = "a commit without the tag of its version is refused by publish.yml, and the run fails"
        how = "if: ${{ needs.wheels.outputs.any == 'true' && needs.wheels.outputs.channel != 'none' }}"
        yield DoctorFinding("published-by-event", Weight.HINT, job.where, what, why, f"in that job: `{how}`")


CALLER_RULES = (
    check_trigger,
    check_publisher,
    check_release_condition,
    check_folders,
    check_attestation,
    check_same_attestation,
)
