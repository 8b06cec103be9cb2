"""The words of a check-up: what is read of a repository, what is found wrong with it, and what the API can mend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.names import Name
from ci_tools.model.pep440 import read_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packaging.version import Version

    from ci_tools.github.doctor.workflows import Outline, Workflow

__all__ = ["Default", "Environment", "Facts", "Finding", "Fix", "Kind", "Policy", "Tag", "Unseen", "Weight"]


class Weight(Name):
    """What a finding means for a release."""

    ERROR = "error"  # it fails, or lets strangers in
    WARNING = "warning"  # it works, and rests on something it should not
    UNSEEN = "not seen"
    HINT = "hint"


class Kind(Name):
    """What can be mended over the API without deciding anything that is for a person to decide."""

    ENABLE_WORKFLOW = "enable a workflow"
    CREATE_ENVIRONMENT = "create an environment"
    READ_BY_DEFAULT = "read by default"


class Fix(NamedTuple):
    """One change over the API."""

    kind: Kind
    subject: str  # the workflow's path, or the environment's name

    def describe(self, facts: Facts) -> str:
        """Return what is done, in a sentence without an end."""
        if self.kind is Kind.ENABLE_WORKFLOW:
            return f"enable {self.subject} again"
        if self.kind is Kind.CREATE_ENVIRONMENT:
            return f'create the environment "{self.subject}", open to {facts.branch} and to tags v* alone'
        return "let jobs read alone by default; the files of other branches were not looked at"


class Finding(NamedTuple):
    """One thing that is wrong, or that nobody can say of."""

    rule: str
    weight: Weight
    where: str
    what: str
    why: str
    mend: str
    fix: Fix | None = None


class Unseen(NamedTuple):
    """A fact that the token did not show."""

    what: str
    needs: str


class Policy(NamedTuple):
    """Which actions may run; the last three say more of `selected`."""

    is_enabled: bool
    allowed: str = "all"  # all, local_only or selected
    pins: bool = False  # whether only full commits are taken
    patterns: tuple[str, ...] = ()
    of_github: bool = True
    verified: bool = True


class Default(NamedTuple):
    """What jobs may do that do not say it."""

    access: str  # read or write
    approves: bool  # whether they may approve pull requests


class Environment(NamedTuple):
    """One environment, and the names of its secrets."""

    has_approval: bool  # whether people, or another service, have to approve
    has_branches: bool  # whether some branches and tags alone may use it
    secrets: frozenset[str] | Unseen


class Tag(NamedTuple):
    """A tag of a repository."""

    name: str
    commit: str

    @property
    def version(self) -> Version | None:
        """The version that it names in full; None for `v4`, a candidate, or another kind of tag."""
        version = read_version(self.name)
        return version if version and len(version.release) > 2 and not version.is_prerelease else None  # noqa: PLR2004 - X.Y.Z


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that was read of a repository; `Unseen` stands for what the token did not show."""

    repository: str
    page: str  # its address for people
    branch: str  # the default one
    is_archived: bool = False
    is_private: bool = False  # or internal to an enterprise
    is_organization: bool = True  # whether an organisation owns it, and no person
    policy: Policy | Unseen
    default: Default | Unseen
    is_immutable: bool | Unseen
    workflows: tuple[Workflow, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()  # files that could not be read, and why
    states: Mapping[str, str] | Unseen
    environments: Mapping[str, Environment] | Unseen
    secrets: frozenset[str] | Unseen  # of the repository, and of its organisation for it
    called: Mapping[tuple[str, str, str], Workflow | Unseen | None]  # by repository, path and ref; None: not there
    tags: Mapping[str, tuple[Tag, ...] | Unseen]  # by repository
    behind: Mapping[tuple[str, str], int | None]  # by repository and untagged commit; None: not there
    configs: Mapping[str, Outline | Unseen] = field(default_factory=dict)  # by path, those that there are

    @property
    def callers(self) -> tuple[Workflow, ...]:
        """The workflows that call Fatwheel."""
        return tuple(workflow for workflow in self.workflows if workflow.is_caller)

    def settings(self, page: str) -> str:
        """Return the address of a page of settings."""
        return f"{self.page}/settings/{page}"
