"""What only GitHub knows of a repository: its API, its settings, and the fixes that need no decision by a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from ci_tools.doctor.documents import one_line
from ci_tools.doctor.report import Default, Fix, GithubEnvironment, Kind, Policy, RepositoryFacts, Unseen
from ci_tools.doctor.workflows import Workflow
from ci_tools.errors import FatwheelError, InputError, Rejected
from ci_tools.github.client import Hub, found_or_none

if TYPE_CHECKING:
    from github.Repository import Repository


ADMINISTRATION = "a token of an admin, with `Administration: read` where it is fine-grained"
SECRETS = "a token with `Secrets: read`, or `repo` where it is classic"
ACTIONS = "a token with `Actions: read`"
ENVIRONMENTS = "a token with `Environments: read`, or `repo` where it is classic"
UNATTENDED = frozenset({"branch_policy", "wait_timer"})  # rules of an environment that need no approval
Value = TypeVar("Value")
Answer = dict[str, Any]
MAX_PAGES = 20  # so 2,000 of a kind: a longer list is not read in part
PAGE = 100  # the most that GitHub sends at once


def read_policy(api: Api) -> Policy | None:
    """Return which actions may run; None if GitHub does not say."""
    said = api.get("/actions/permissions")
    if not said or not said["enabled"]:  # then it has no other fields
        return said and Policy(is_enabled=False)
    allowed, pins = said.get("allowed_actions", "all"), bool(said.get("sha_pinning_required"))
    if allowed != "selected":
        return Policy(is_enabled=True, allowed=allowed, pins=pins)
    listed = api.get("/actions/permissions/selected-actions")
    return listed and Policy(
        is_enabled=True,
        allowed=allowed,
        pins=pins,
        patterns=tuple(listed.get("patterns_allowed") or ()),
        of_github=bool(listed.get("github_owned_allowed")),
        verified=bool(listed.get("verified_allowed")),
    )


def read_default(api: Api) -> Default | None:
    """Return the default permissions of jobs; None if GitHub does not say."""
    said = api.get("/actions/permissions/workflow")
    return said and Default(said["default_workflow_permissions"], approves=said["can_approve_pull_request_reviews"])


def read_immutability(api: Api, *, is_admin: bool) -> bool | Unseen:
    """Return whether releases are immutable; GitHub answers 404 if they are not, and also without the permission."""
    said = answer_or_none(lambda: api.get("/immutable-releases"))  # which the next line tells apart
    if said is None and not is_admin:
        return Unseen("whether releases can be changed", ADMINISTRATION)
    return said is not None and bool(said["enabled"])


def read_states(api: Api) -> dict[str, str] | None:
    """Return the state of each workflow by its path; None if GitHub does not say."""
    listed = api.pages("/actions/workflows", "workflows")
    return None if listed is None else {str(one["path"]): str(one["state"]) for one in listed}


def read_environments(api: Api, workflows: Iterable[Workflow]) -> dict[str, GithubEnvironment] | None:
    """Return the environments; names of secrets are read only for environments that a job names."""
    listed = api.pages("/environments", "environments")
    if listed is None:
        return None
    named = {job.environment.lower() for workflow in workflows if workflow.is_caller for job in workflow.jobs}
    return {one["name"]: _environment(api, one, is_named=one["name"].lower() in named) for one in listed}


def _environment(api: Api, said: Answer, *, is_named: bool) -> GithubEnvironment:
    rules = {rule["type"] for rule in said.get("protection_rules") or ()}
    path, what = f"/environments/{quote(said['name'], safe='')}/secrets", f"the secrets of {one_line(said['name'])}"
    secrets = read_or_unseen(what, ENVIRONMENTS, lambda: _names(api, path)) if is_named else frozenset[str]()
    return GithubEnvironment(bool(rules - UNATTENDED), bool(said.get("deployment_branch_policy")), secrets)


def read_secrets(api: Api) -> frozenset[str] | None:
    """Return the names of a repository's secrets, and of those that its organization shares with it."""
    own = _names(api, "/actions/secrets")
    has_organisation = api.opened.owner.type == "Organization"
    shared = _names(api, "/actions/organization-secrets") if has_organisation else frozenset[str]()
    return None if own is None or shared is None else own | shared  # half a list would call the rest missing


def _names(api: Api, path: str) -> frozenset[str] | None:
    """Return the names in a list of secrets; None if GitHub does not say."""
    listed = api.pages(path, "secrets")
    return None if listed is None else frozenset(str(one["name"]) for one in listed)


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
    path = f"/environments/{quote(name, safe='')}"  # PUT creates and changes alike
    if api.get(path) is not None:
        raise Rejected("somebody else has created it by now")
    policy = {"protected_branches": False, "custom_branch_policies": True}  # tags need the custom kind
    api.send("PUT", path, {"deployment_branch_policy": policy})
    for pattern, kind in ((facts.branch, "branch"), ("v*", "tag")):
        api.send("POST", f"{path}/deployment-branch-policies", {"name": pattern, "type": kind})


def _restrict(api: Api, _: str, facts: RepositoryFacts) -> None:
    approves = not isinstance(facts.default, Unseen) and facts.default.approves  # which is kept
    body = {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": approves}
    api.send("PUT", "/actions/permissions/workflow", body)


FIXES = {Kind.ENABLE_WORKFLOW: _enable, Kind.CREATE_ENVIRONMENT: _create, Kind.READ_BY_DEFAULT: _restrict}


@dataclass(frozen=True, slots=True)
class Api:
    """The API of one repository, with the retries of the hub."""

    hub: Hub
    opened: Repository

    @property
    def name(self) -> str:
        """The repository's present name; it may have been renamed."""
        return self.opened.full_name

    def get(self, path: str, repository: str = "", **parameters: str | int) -> Any:  # noqa: ANN401 - any JSON
        """Return an answer; None on HTTP 404; raise InputError if the token may not read it."""
        return self._send("GET", f"/repos/{repository or self.name}{path}", parameters=parameters)

    def pages(self, path: str, key: str = "", repository: str = "") -> list[Any] | None:
        """Return a whole list, which GitHub sends in pages; None on HTTP 404, or if it is longer than `MAX_PAGES`."""
        whole: list[Any] = []
        for page in range(1, MAX_PAGES + 1):
            answer = self.get(path, repository, per_page=PAGE, page=page)
            if answer is None:
                return None
            part = answer[key] if key else answer
            whole += part
            if len(part) < PAGE:  # the last one
                return whole
        return None  # better unseen than half

    def send(self, method: str, path: str, body: object = None) -> None:
        """Send a change; raise FatwheelError if GitHub refuses it."""
        self._send(method, f"/repos/{self.name}{path}", input=body)

    def _send(self, method: str, path: str, **more: Any) -> Any:  # noqa: ANN401 - any JSON
        def call() -> Any:  # noqa: ANN401
            return self.opened.requester.requestJsonAndCheck(method, path, **more)[1]

        return self.hub.ask(lambda _: found_or_none(call) if method == "GET" else call())


def answer_or_none(call: Callable[[], Value | None]) -> Value | None:
    """Return the result of a call; None if the token may not read it, or if it does not exist."""
    try:
        return call()
    except (InputError, Rejected):  # the token, or the request, is refused
        return None


def read_or_unseen(what: str, needs: str, call: Callable[[], Value | None]) -> Value | Unseen:
    """Return the result of a call, or Unseen if the token cannot read it."""
    value = answer_or_none(call)
    return Unseen(what, needs) if value is None else value
