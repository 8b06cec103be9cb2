"""The facts of a repository in which nothing is wrong, and how to change what its workflow says."""

from __future__ import annotations

from dataclasses import replace

from ci_tools.doctor.report import Default, Policy, RepositoryFacts, RepositoryTag
from ci_tools.doctor.rules import diagnose
from ci_tools.doctor.workflow_set import read_workflow
from ci_tools.doctor.workflows import Workflow, WorkflowJob, outline

PATH = ".github/workflows/release.yml"
NEW, OLD = "1" * 40, "2" * 40
FATWHEEL = f"octo/fatwheel/.github/workflows/wheels.yml@{NEW}"


def workflow(text: str, path: str = PATH, *, own: str = "") -> Workflow:
    return outline(read_workflow(text, path), own)


def job(text: str) -> WorkflowJob:
    return workflow(f"on: push\njobs:\n  it: {text}\n").jobs[0]


CALLED = workflow("on: workflow_call\npermissions: {}\njobs: {a: {permissions: {contents: write}}}")
FACTS = RepositoryFacts(
    repository="octo/demo",
    page="https://github.com/octo/demo",
    branch="main",
    policy=Policy(is_enabled=True),
    default=Default("read", approves=False),
    is_immutable=True,
    workflows=(workflow(f"on: push\njobs: {{it: {{uses: '{FATWHEEL}', permissions: {{contents: write}}}}}}"),),
    states={},
    environments={},
    secrets=frozenset(),
    called={("octo/fatwheel", "/.github/workflows/wheels.yml", NEW): CALLED},
    tags={"octo/fatwheel": (RepositoryTag("v1.1.0", NEW), RepositoryTag("v1.0.0", OLD), RepositoryTag("v1", NEW))},
    behind={},
)


def found(facts: RepositoryFacts) -> list[tuple[str, str]]:
    return [(finding.rule, str(finding.weight)) for finding in diagnose(facts)]


def with_job(text: str, **facts: object) -> RepositoryFacts:
    return replace(FACTS, workflows=(workflow(f"on: push\njobs:\n  it: {text}"),), **facts)  # type: ignore[arg-type]
