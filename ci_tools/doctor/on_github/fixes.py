"""The fixes that can be made over GitHub's API and need no decision by a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from ci_tools.doctor.documents import one_line
from ci_tools.doctor.report import Fix, Kind, RepositoryFacts, Unseen
from ci_tools.errors import FatwheelError, Rejected

if TYPE_CHECKING:
    from ci_tools.doctor.on_github.api import Api

WRITES = {
    Kind.ENABLE_WORKFLOW: "Actions: write",
    Kind.CREATE_ENVIRONMENT: "Administration: write",
    Kind.READ_BY_DEFAULT: "Administration: write",
}


class Fixed(NamedTuple):
    """One fix, and its outcome: done, or why not."""

    what: str
    outcome: str


def apply_fix(api: Api, fix: Fix, facts: RepositoryFacts) -> Fixed:
    """Make one fix, and return its outcome."""
    what = fix.describe(facts)
    try:
        FIXES[fix.kind](api, fix.subject, facts)
    except FatwheelError as error:
        return Fixed(what, f"refused: {one_line(error.message)}; it needs a token with `{WRITES[fix.kind]}`")
    return Fixed(what, "done")


def _enable(api: Api, path: str, _: RepositoryFacts) -> None:
    api.send("PUT", f"/actions/workflows/{quote(path.rpartition('/')[2], safe='')}/enable")


def _create(api: Api, name: str, facts: RepositoryFacts) -> None:
    """Create an environment that only the default branch and tags v* may use; never change an existing one."""
    path = f"/environments/{quote(name, safe='')}"
    if api.get(path) is not None:
        msg = "somebody else has created it by now"
        raise Rejected(msg)
    policy = {"protected_branches": False, "custom_branch_policies": True}
    api.send("PUT", path, {"deployment_branch_policy": policy})
    for pattern, kind in ((facts.branch, "branch"), ("v*", "tag")):
        api.send("POST", f"{path}/deployment-branch-policies", {"name": pattern, "type": kind})


def _restrict(api: Api, _: str, facts: RepositoryFacts) -> None:
    approves = not isinstance(facts.default, Unseen) and facts.default.approves
    body = {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": approves}
    api.send("PUT", "/actions/permissions/workflow", body)


FIXES = {
    Kind.ENABLE_WORKFLOW: _enable,
    Kind.CREATE_ENVIRONMENT: _create,
    Kind.READ_BY_DEFAULT: _restrict,
}
