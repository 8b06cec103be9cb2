"""The nouns of a check-up: the facts of a repository, the findings, and the fixes that the API can make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

from ci_tools.catalog import tables
from ci_tools.model.names import Name
from ci_tools.model.versions import read_version

if TYPE_CHECKING:
    from ci_tools.doctor.configs import ConfigOutline
    from ci_tools.doctor.workflow_set import WorkflowSet
    from ci_tools.doctor.workflows import Workflow

FINDINGS = tables.read("findings")


class Weight(Name):
    """The meaning of a finding for a release."""

    ERROR = "error"  # the release fails, or strangers can interfere
    WARNING = "warning"  # the release works, but relies on something it should not
    UNSEEN = "not seen"
    HINT = "hint"


class Kind(Name):
    """The fixes that can be made over the API and need no decision by a person."""

    ENABLE_WORKFLOW = "enable a workflow"
    CREATE_ENVIRONMENT = "create an environment"
    READ_BY_DEFAULT = "read by default"


class Fix(NamedTuple):
    """One change over the API."""

    kind: Kind
    subject: str  # the workflow's path, or the environment's name

    def describe(self, facts: RepositoryFacts) -> str:
        """Return a description of the change, without a full stop."""
        if self.kind is Kind.ENABLE_WORKFLOW:
            return f"enable {self.subject} again"
        if self.kind is Kind.CREATE_ENVIRONMENT:
            return f'create the environment "{self.subject}", for {facts.branch} and tags v* only'
        return "let jobs only read by default; the workflows of other branches were not checked"


class DoctorFinding(NamedTuple):
    """One thing that is wrong, or could not be checked."""

    rule: str
    weight: Weight
    where: str
    what: str
    why: str
    how: str
    fix: Fix | None = None


class Unseen(NamedTuple):
    """A fact that the token could not read."""

    what: str
    needs: str


class Policy(NamedTuple):
    """Which actions may run; the last three fields are for `selected`."""

    is_enabled: bool
    allowed: str = "all"  # all, local_only or selected
    pins: bool = False  # whether actions must be pinned to a full commit SHA
    patterns: tuple[str, ...] = ()
    of_github: bool = True
    verified: bool = True


class Default(NamedTuple):
    """The default permissions of jobs without `permissions:`."""

    access: str  # read or write
    approves: bool  # whether they may approve pull requests


class GithubEnvironment(NamedTuple):
    """One environment, and the names of its secrets."""

    has_approval: bool  # whether people, or another service, have to approve
    has_branches: bool  # whether only some branches and tags may use it
    secrets: frozenset[str] | Unseen


class RepositoryTag(NamedTuple):
    """A tag of a repository."""

    name: str
    commit: str

    @property
    def version(self) -> Version | None:
        """The complete version that the tag names; None for `v4`, a candidate, or another kind of tag."""
        version = read_version(self.name)
        return version if version and len(version.release) > 2 and not version.is_prerelease else None  # noqa: PLR2004 - X.Y.Z


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryFacts:
    """All facts read from a repository; `Unseen` stands for facts that the token could not read."""

    repository: str
    page: str  # the address of its web page
    branch: str = ""  # the default one
    is_archived: bool = False
    is_private: bool = False  # or internal to an enterprise
    is_organization: bool = True  # whether an organization owns it, not a person
    policy: Policy | Unseen
    default: Default | Unseen
    is_immutable: bool | Unseen
    workflows: tuple[Workflow, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()  # files that could not be read, and why
    states: Mapping[str, str] | Unseen
    environments: Mapping[str, GithubEnvironment] | Unseen
    secrets: frozenset[str] | Unseen  # the repository's own, and those its organization shares with it
    called: Mapping[tuple[str, str, str], Workflow | Unseen | None]  # by repository, path and ref; None: missing
    tags: Mapping[str, tuple[RepositoryTag, ...] | Unseen] = field(default_factory=dict)  # by repository
    behind: Mapping[tuple[str, str], int | None] = field(default_factory=dict)  # by repository, commit; None: missing
    configs: Mapping[str, ConfigOutline | Unseen] = field(default_factory=dict)  # by path, only those that exist
    files: WorkflowSet | None = None  # all workflows and actions as they are written

    @property
    def callers(self) -> tuple[Workflow, ...]:
        """The workflows that call Fatwheel."""
        return tuple(workflow for workflow in self.workflows if workflow.is_caller)

    def settings(self, page: str) -> str:
        """Return the address of one page of the repository's settings."""
        return f"{self.page}/settings/{page}"


def report(
    rule: str, where: str, what: str, how: str = "", fix: Fix | None = None, *, weight: Weight | None = None
) -> DoctorFinding:
    """Return the finding of a rule, or of a kind of it such as `image/gone`: the catalog has the rest."""
    row = FINDINGS[rule]
    own = weight or Weight(row.get("weight", "error"))
    return DoctorFinding(rule.partition("/")[0], own, where, what, row["why"], how or row["how"], fix)


def report_unseen(where: str, fact: Unseen) -> DoctorFinding:
    """Return the finding for a fact that could not be read."""
    return report("unseen", where, f"not seen: {fact.what}", f"needs {fact.needs}")  # an empty answer is not a good one
