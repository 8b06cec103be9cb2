"""The workflows of a repository that calls Fatwheel: each job's permissions, actions, secrets and targets."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.doctor.grants import ATTEST_PUBLIC
from ci_tools.model.names import CONFIG_FILE
from ci_tools.model.request import Release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_tools.doctor.grants import Grants

INHERITED = "inherit"  # stands for all secrets of the caller, in place of their names
WORKFLOW = re.compile(r"/\.github/workflows/[^/]+\.ya?ml")
EXPRESSION = "${{"  # starts a value that is unknown before a run
CALLS = re.compile(r"/\.github/workflows/(?:wheels|publish|platform|recipes|request)\.ya?ml")
PUBLISHES = re.compile(r"/publish\.ya?ml$")
PLATFORM = re.compile(r"/platform\.ya?ml$")
WHEELS = re.compile(r"/wheels\.ya?ml$")
RECIPES = re.compile(r"/(?:recipes|request)\.ya?ml$")
TRUSTED_PUBLISHER = "pypa/gh-action-pypi-publish"


class Used(NamedTuple):
    """The action or workflow that a `uses:` names, and its place; `repository` is empty for the same repository."""

    repository: str
    path: str
    ref: str
    where: str

    @property
    def is_fatwheel(self) -> bool:
        """Whether it is Fatwheel, or a fork of it."""
        return self.repository.rpartition("/")[2].lower() == "fatwheel"

    @property
    def is_workflow(self) -> bool:
        """Whether it is a reusable workflow, not an action."""
        return WORKFLOW.fullmatch(self.path) is not None

    @property
    def is_call(self) -> bool:
        """Whether it is one of Fatwheel's reusable workflows."""
        return self.is_fatwheel and CALLS.fullmatch(self.path) is not None

    def __str__(self) -> str:
        return f"{self.repository}{self.path}@{self.ref}".rstrip("@")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowJob:
    """One job: its permissions, the actions it uses, and the environment and secrets it names."""

    name: str
    where: str
    grants: Grants | None  # None: it has no `permissions:` of its own
    needs: Grants  # the permissions that its own steps are known to need
    call: Used | None  # the workflow that it calls
    steps: tuple[Used, ...]
    environment: str
    condition: str  # its `if:`
    secrets: frozenset[str]
    passed: frozenset[str]  # names of secrets passed to the called workflow
    given: Mapping[str, str]  # its `with:`

    @property
    def uses(self) -> tuple[Used, ...]:
        """The called workflow and all actions of its steps."""
        return (self.call, *self.steps) if self.call else self.steps

    @property
    def is_build(self) -> bool:
        """Whether the job builds with Fatwheel."""
        return any(used.is_call or (used.is_fatwheel and not used.path.strip("/")) for used in self.uses)

    @property
    def publishes(self) -> bool:
        """Whether the job calls publish.yml, which publishes a release."""
        return self._calls(PUBLISHES)

    @property
    def builds_all(self) -> bool:
        """Whether the job calls wheels.yml, which builds the platforms of a config."""
        return self._calls(WHEELS)

    @property
    def builds_one(self) -> bool:
        """Whether the job calls platform.yml, which builds one platform."""
        return self._calls(PLATFORM)

    @property
    def builds_recipes(self) -> bool:
        """Whether the job calls recipes.yml or request.yml, which build and publish recipes."""
        return self._calls(RECIPES)

    @property
    def config(self) -> str:
        """The path of the config in its call of Fatwheel."""
        return self.given.get("config") or CONFIG_FILE

    @property
    def attest(self) -> str:
        """The input `attest` of its call of Fatwheel: whether the files are signed."""
        return self.given.get("attest") or ATTEST_PUBLIC

    def _calls(self, path: re.Pattern[str]) -> bool:
        return bool(self.call and self.call.is_call and path.search(self.call.path))

    @property
    def is_trusted_publisher(self) -> bool:
        """Whether the job uploads to PyPI by trusted publishing, without a password."""
        return "id-token" in self.needs and any(used.repository.lower() == TRUSTED_PUBLISHER for used in self.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One workflow file."""

    path: str
    triggers: tuple[str, ...]
    grants: Grants | None
    jobs: tuple[WorkflowJob, ...]
    secrets: frozenset[str]  # secrets named outside of its jobs
    required: frozenset[str]  # secrets that a caller must pass

    @property
    def is_caller(self) -> bool:
        """Whether any of its jobs uses Fatwheel."""
        return any(used.is_fatwheel for job in self.jobs for used in job.uses)

    def grants_of(self, job: WorkflowJob) -> Grants | None:
        """Return a job's permissions: its own or the workflow's; None if neither sets any."""
        return self.grants if job.grants is None else job.grants


class ConfigOutline(NamedTuple):
    """The parts of a config that matter to the workflows which call Fatwheel with it."""

    targets: tuple[str, ...]
    platforms: Mapping[str, bool]  # each enabled platform to whether a separate workflow builds it
    included: Mapping[str, str]  # platform to the included file with its table
    package: str = ""
    tag: str = Release().tag  # a template


def qualify_calls(workflow: Workflow, repository: str) -> Workflow:
    """Return a workflow of Fatwheel's own repository with that repository filled in where it calls others locally."""
    jobs = (
        replace(
            job, call=job.call and _own(job.call, repository), steps=tuple(_own(one, repository) for one in job.steps)
        )
        for job in workflow.jobs
    )
    return replace(workflow, jobs=tuple(jobs))


def _own(used: Used, repository: str) -> Used:
    return used if used.repository else used._replace(repository=repository)
