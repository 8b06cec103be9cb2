"""The verb doctor: reads the settings that a release needs over GitHub's API, and makes fixes that need no decision.

It reads the names of secrets, never their values, and never extends a permission. Facts that the token cannot read are
reported.
"""

from __future__ import annotations

import base64
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from github.GithubException import UnknownObjectException

from ci_tools.errors import FatwheelError, InputError, MachineError, Rejected
from ci_tools.github.client import TOKENS
from ci_tools.github.doctor import workflows as callers
from ci_tools.github.doctor.report import (
    Default,
    Environment,
    Facts,
    Fix,
    Kind,
    Policy,
    Tag,
    Unseen,
    Weight,
)
from ci_tools.github.doctor.rules import diagnose
from ci_tools.github.doctor.workflows import Workflow, one_line
from ci_tools.model.repository import COMMIT, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from github.Repository import Repository

    from ci_tools.github.client import Hub
    from ci_tools.github.doctor.report import Finding
    from ci_tools.github.doctor.workflows import Outline, Used
    from ci_tools.machine.context import Outside

__all__ = ["Checked", "Mended", "check", "status", "to_json"]

Value = TypeVar("Value")
Answer = dict[str, Any]

FOLDER = ".github/workflows"
MOST_FILES = 100
MOST_REPOSITORIES = 40  # whose tags are read
MOST_PAGES = 20
PAGE = 100
ADMINISTRATION = "a token of an admin, with `Administration: read` where it is fine-grained"
SECRETS = "a token with `Secrets: read`, or `repo` where it is classic"
ACTIONS = "a token with `Actions: read`"
ENVIRONMENTS = "a token with `Environments: read`, or `repo` where it is classic"
UNATTENDED = frozenset({"branch_policy", "wait_timer"})  # rules of an environment that need no approval
WRITES = {
    Kind.ENABLE_WORKFLOW: "Actions: write",
    Kind.CREATE_ENVIRONMENT: "Administration: write",
    Kind.READ_BY_DEFAULT: "Administration: write",
}


class Mended(NamedTuple):
    """One fix, and its outcome: done, or why not."""

    what: str
    outcome: str


class Checked(NamedTuple):
    """The findings in a repository after all fixes, and the fixes."""

    repository: str
    findings: tuple[Finding, ...]
    mended: tuple[Mended, ...]


def check(hub: Hub, *, fix: bool = False) -> Checked:
    """Return everything that would stop or weaken a release; with `fix`, make the possible fixes and check again.

    Raises InputError if the name or the token is wrong, and MachineError if GitHub cannot be reached.
    """
    _refuse_no_token(hub.repository, hub.outside)
    with hub.opened() as opened, _understood(hub.repository):
        api = _Api(hub, opened)
        facts = _read(api, hub.outside)
        findings = diagnose(facts)
        fixes = list(dict.fromkeys(finding.fix for finding in findings if finding.fix)) if fix else []
        for one in fixes:
            hub.outside.reporter.say(f"will {one.describe(facts)}")
        mended = tuple(_apply_fix(api, one, facts) for one in fixes)
        return Checked(api.name, diagnose(_read(api, hub.outside)) if mended else findings, mended)


def status(checked: Checked) -> int:
    """Return 1 if there are findings other than hints, else 0."""
    return int(any(finding.weight is not Weight.HINT for finding in checked.findings))


def to_json(checked: Checked) -> dict[str, object]:
    """Return the result as JSON values, for scripts."""
    findings = [
        {**finding._asdict(), "fix": finding.fix and {"kind": str(finding.fix.kind), "subject": finding.fix.subject}}
        for finding in checked.findings
    ]
    mended = [one._asdict() for one in checked.mended]
    return {"schema": 1, "repository": checked.repository, "findings": findings, "mended": mended}


@contextmanager
def _understood(repository: str) -> Iterator[None]:
    """Raise MachineError if an answer does not have the form that GitHub documents."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        msg = f"what was answered of {repository} is not as GitHub says it: {one_line(repr(error))}"
        raise MachineError(msg, hint="is GITHUB_API_URL the address of its API?") from error


def _refuse_no_token(repository: str, outside: Outside) -> None:
    if REPOSITORY.fullmatch(repository) and not any(outside.environ.get(name, "").strip() for name in TOKENS):
        msg = f"looking at the settings of {repository} needs a token, and neither {' nor '.join(TOKENS)} is set"
        raise InputError(msg, hint='export GH_TOKEN="$(gh auth token)"')


# -- requests


@dataclass(frozen=True, slots=True)
class _Api:
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
        """Return a whole list, which GitHub sends in pages; None on HTTP 404, or if it is longer than `MOST_PAGES`."""
        whole: list[Any] = []
        for page in range(1, MOST_PAGES + 1):
            answer = self.get(path, repository, per_page=PAGE, page=page)
            if answer is None:
                return None
            part = answer[key] if key else answer
            whole += part
            if len(part) < PAGE:
                return whole
        return None

    def send(self, method: str, path: str, body: object = None) -> None:
        """Send a change; raise FatwheelError if GitHub refuses it."""
        self._send(method, f"/repos/{self.name}{path}", input=body)

    def _send(self, method: str, path: str, **more: Any) -> Any:  # noqa: ANN401 - any JSON
        def call(_: bool) -> Any:  # noqa: ANN401, FBT001 - the hub says whether it asks again
            try:
                return self.opened.requester.requestJsonAndCheck(method, path, **more)[1]
            except UnknownObjectException:
                if method == "GET":
                    return None
                raise

        return self.hub.ask(call)


def _answer(call: Callable[[], Value | None]) -> Value | None:
    """Return the result of a call; None if the token may not read it, or if it does not exist."""
    try:
        return call()
    except (InputError, Rejected):
        return None


def _call_or_unseen(what: str, needs: str, call: Callable[[], Value | None]) -> Value | Unseen:
    """Return the result of a call, or Unseen if the token cannot read it."""
    value = _answer(call)
    return Unseen(what, needs) if value is None else value


# -- reading


def _read(api: _Api, outside: Outside) -> Facts:
    """Return all facts of a repository."""
    with outside.reporter.step(f"looking at {api.name}") as step:
        workflows, unread = _workflows(api)
        used = [one for workflow in workflows if workflow.is_caller for job in workflow.jobs for one in job.uses]
        tags = _tags(api, used)
        policy = _call_or_unseen("which actions may run", ADMINISTRATION, lambda: _policy(api))
        facts = Facts(
            repository=api.name,
            page=one_line(api.opened.html_url),
            branch=one_line(api.opened.default_branch),
            is_archived=api.opened.archived,
            is_private=api.opened.private,
            is_organization=api.opened.owner.type == "Organization",
            policy=policy,
            default=_call_or_unseen("what jobs may do by default", ADMINISTRATION, lambda: _default(api)),
            is_immutable=_immutable(api, is_admin=not isinstance(policy, Unseen)),
            workflows=tuple(workflows),
            unread=tuple(unread),
            states=_call_or_unseen("whether workflows are disabled", ACTIONS, lambda: _states(api)),
            environments=_call_or_unseen("the environments", ACTIONS, lambda: _environments(api, workflows)),
            secrets=_call_or_unseen("which secrets there are", SECRETS, lambda: _secrets(api)),
            called=dict(_fetch_workflows(api, used, tags, workflows)),
            tags=tags,
            behind=dict(_behind(api, used, tags)),
            configs=dict(_configs(api, workflows)),
        )
        step.result(f"{len(workflows)} workflow{'s'[: len(workflows) != 1]}, {len(facts.callers)} of them Fatwheel's")
    return facts


def _workflows(api: _Api) -> tuple[list[Workflow], list[tuple[str, str]]]:
    """Return the workflows of the default branch, and the files that could not be read, with the reasons."""
    branch = api.opened.default_branch
    try:
        listed = api.get(f"/contents/{FOLDER}", ref=branch)
    except InputError:
        return [], [(FOLDER, "the workflow files need a token with `Contents: read`")]
    if listed is None:
        return [], []
    files = [file for file in listed if str(file["name"]).endswith((".yml", ".yaml"))]
    read = [_workflow(api, file, branch) for file in files[:MOST_FILES]]
    left = [(FOLDER, f"{len(files)} files, of which {MOST_FILES} were read")] * (len(files) > MOST_FILES)
    return [one for one in read if isinstance(one, Workflow)], [one for one in read if isinstance(one, tuple)] + left


def _workflow(api: _Api, file: Answer, branch: str) -> Workflow | tuple[str, str]:
    """Return a workflow; if the file is not a workflow, its path and the reason."""
    try:
        workflow = callers.read(_text(api, file, branch), str(file["path"]))
    except InputError as error:
        return one_line(str(file["path"])), one_line(error.message)
    return callers.qualify_calls(workflow, api.name) if api.name.lower().endswith("/fatwheel") else workflow


def _text(api: _Api, file: Answer, ref: str, repository: str = "") -> str:
    """Return the text of a file; raise InputError if it is not a file, too large, or not text."""
    path = one_line(str(file["path"]))
    if file["type"] != "file" or file["size"] > callers.LARGEST:
        msg = f"{path} is no file, or larger than {callers.LARGEST:,} bytes"
        raise InputError(msg)
    whole = file if "content" in file else api.get(f"/contents/{quote(str(file['path']))}", repository, ref=ref)
    try:
        return base64.b64decode(whole["content"])[: callers.LARGEST].decode("utf-8-sig")
    except (KeyError, TypeError, ValueError):
        msg = f"{path} is no text"
        raise InputError(msg) from None


def _policy(api: _Api) -> Policy | None:
    said = api.get("/actions/permissions")
    if not said or not said["enabled"]:
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


def _default(api: _Api) -> Default | None:
    said = api.get("/actions/permissions/workflow")
    return said and Default(said["default_workflow_permissions"], approves=said["can_approve_pull_request_reviews"])


def _immutable(api: _Api, *, is_admin: bool) -> bool | Unseen:
    """Return whether releases are immutable; GitHub answers 404 if they are not, and also without the permission."""
    said = _answer(lambda: api.get("/immutable-releases"))
    if said is None and not is_admin:
        return Unseen("whether releases can be changed", ADMINISTRATION)
    return said is not None and bool(said["enabled"])


def _states(api: _Api) -> dict[str, str] | None:
    listed = api.pages("/actions/workflows", "workflows")
    return None if listed is None else {str(one["path"]): str(one["state"]) for one in listed}


def _environments(api: _Api, workflows: Iterable[Workflow]) -> dict[str, Environment] | None:
    """Return the environments; names of secrets are read only for environments that a job names."""
    listed = api.pages("/environments", "environments")
    if listed is None:
        return None
    named = {job.environment.lower() for workflow in workflows if workflow.is_caller for job in workflow.jobs}
    return {one["name"]: _environment(api, one, is_named=one["name"].lower() in named) for one in listed}


def _environment(api: _Api, said: Answer, *, is_named: bool) -> Environment:
    rules = {rule["type"] for rule in said.get("protection_rules") or ()}
    path, what = f"/environments/{quote(said['name'], safe='')}/secrets", f"the secrets of {one_line(said['name'])}"
    secrets = _call_or_unseen(what, ENVIRONMENTS, lambda: _names(api, path)) if is_named else frozenset[str]()
    return Environment(bool(rules - UNATTENDED), bool(said.get("deployment_branch_policy")), secrets)


def _secrets(api: _Api) -> frozenset[str] | None:
    """Return the names of a repository's secrets, and of those that its organization shares with it."""
    own = _names(api, "/actions/secrets")
    has_organisation = api.opened.owner.type == "Organization"
    shared = _names(api, "/actions/organization-secrets") if has_organisation else frozenset[str]()
    return None if own is None or shared is None else own | shared


def _names(api: _Api, path: str) -> frozenset[str] | None:
    listed = api.pages(path, "secrets")
    return None if listed is None else frozenset(str(one["name"]) for one in listed)


def _tags(api: _Api, used: Iterable[Used]) -> dict[str, tuple[Tag, ...] | Unseen]:
    """Return the tags of each repository that is used, by its lower-case name."""
    names = dict.fromkeys(one.repository.lower() for one in used if one.ref)
    tags: dict[str, tuple[Tag, ...] | Unseen] = {}
    for name in names:
        what, needs = f"the releases of {name}", f"a token that sees {name}"
        is_last = len(tags) >= MOST_REPOSITORIES
        tags[name] = Unseen(what, "fewer actions in one repository") if is_last else _tags_of(api, name, what, needs)
    return tags


def _tags_of(api: _Api, name: str, what: str, needs: str) -> tuple[Tag, ...] | Unseen:
    listed = _call_or_unseen(what, needs, lambda: api.pages("/tags", repository=name))
    if isinstance(listed, Unseen):
        return listed
    return tuple(Tag(one_line(one["name"]), str(one["commit"]["sha"])) for one in listed)


def _behind(
    api: _Api, used: Iterable[Used], tags: dict[str, tuple[Tag, ...] | Unseen]
) -> Iterator[tuple[tuple[str, str], int | None]]:
    """Yield how many commits each pin without a release is behind the newest release; None if the commit is missing."""
    pins = dict.fromkeys((one.repository.lower(), one.ref) for one in used if COMMIT.fullmatch(one.ref))
    for name, commit in islice(pins, MOST_REPOSITORIES):
        known = tags[name]
        released = [] if isinstance(known, Unseen) else [tag for tag in known if tag.version]
        if released and all(tag.commit != commit for tag in released):
            newest = max(released, key=lambda tag: (tag.version, tag.name))
            # Only the first page contains the changed files, which may take GitHub too long.
            said = api.get(f"/compare/{commit}...{newest.commit}", name, per_page=1, page=2)
            yield (name, commit), None if said is None else int(said["ahead_by"])


def _fetch_workflows(
    api: _Api, used: Iterable[Used], tags: dict[str, tuple[Tag, ...] | Unseen], own: Iterable[Workflow]
) -> Iterator[tuple[tuple[str, str, str], Workflow | Unseen | None]]:
    """Yield each Fatwheel workflow that is called, at the ref of the call."""
    by_path = {workflow.path: workflow for workflow in own}
    for call in dict.fromkeys(one[:3] for one in used if one.is_call):
        repository, path, ref = call
        if not ref:
            yield call, by_path.get(path.lstrip("/"))
        elif isinstance(tags[repository.lower()], Unseen):
            yield call, Unseen(f"what {path[1:]} at {ref} asks for", f"a token that sees {repository}")
        else:
            yield call, _fetch_workflow(api, repository, path, ref)


def _fetch_workflow(api: _Api, repository: str, path: str, ref: str) -> Workflow | Unseen | None:
    try:
        file = api.get(f"/contents{quote(path)}", repository, ref=ref)
        if file is None:
            return None
        return callers.read(_text(api, file, ref, repository), path.lstrip("/"))
    except (InputError, Rejected) as error:
        return Unseen(f"what {path[1:]} at {ref} asks for", f"a file that can be read: {one_line(error.message)}")


def _configs(api: _Api, workflows: Iterable[Workflow]) -> Iterator[tuple[str, Outline | Unseen]]:
    """Yield each config that a call of Fatwheel names, if it exists on the default branch, by its path."""
    jobs = (job for workflow in workflows for job in workflow.jobs if job.builds_all or job.builds_one)
    paths = dict.fromkeys(job.config for job in jobs if callers.EXPRESSION not in job.config)
    for path in islice(paths, MOST_REPOSITORIES):
        found = _config(api, path)
        if found:
            yield path, found


def _config(api: _Api, path: str) -> Outline | Unseen | None:
    """Return the outline of a config, with the tables in included files; None if the config does not exist."""
    try:
        text = _text_at(api, path)
        return None if text is None else _with_included(api, callers.read_config(text, path), path)
    except (InputError, Rejected) as error:
        return Unseen(f"what {path} asks for", f"a file that can be read: {one_line(error.message)}")


def _with_included(api: _Api, outline: Outline, path: str) -> Outline:
    folder = path.rpartition("/")[0]
    tables = {name: _text_at(api, f"{folder}/{file}".lstrip("/")) for name, file in outline.included.items()}
    own = {name: callers.read_included(table, path) for name, table in tables.items() if table is not None}
    return outline._replace(platforms={**outline.platforms, **own})


def _text_at(api: _Api, path: str) -> str | None:
    branch = api.opened.default_branch
    file = api.get(f"/contents/{quote(path)}", ref=branch)
    return None if file is None else _text(api, file, branch)


# -- fixes


def _apply_fix(api: _Api, fix: Fix, facts: Facts) -> Mended:
    """Make one fix, and return its outcome."""
    what = fix.describe(facts)
    try:
        MENDS[fix.kind](api, fix.subject, facts)
    except FatwheelError as error:
        return Mended(what, f"refused: {one_line(error.message)}; it needs a token with `{WRITES[fix.kind]}`")
    return Mended(what, "done")


def _enable(api: _Api, path: str, _: Facts) -> None:
    api.send("PUT", f"/actions/workflows/{quote(path.rpartition('/')[2], safe='')}/enable")


def _create(api: _Api, name: str, facts: Facts) -> None:
    """Create an environment that only the default branch and tags v* may use; never change an existing one."""
    path = f"/environments/{quote(name, safe='')}"
    if api.get(path) is not None:
        msg = "somebody else has made it by now"
        raise Rejected(msg)
    policy = {"protected_branches": False, "custom_branch_policies": True}
    api.send("PUT", path, {"deployment_branch_policy": policy})
    for pattern, kind in ((facts.branch, "branch"), ("v*", "tag")):
        api.send("POST", f"{path}/deployment-branch-policies", {"name": pattern, "type": kind})


def _restrict(api: _Api, _: str, facts: Facts) -> None:
    approves = not isinstance(facts.default, Unseen) and facts.default.approves
    body = {"default_workflow_permissions": "read", "can_approve_pull_request_reviews": approves}
    api.send("PUT", "/actions/permissions/workflow", body)


MENDS = {
    Kind.ENABLE_WORKFLOW: _enable,
    Kind.CREATE_ENVIRONMENT: _create,
    Kind.READ_BY_DEFAULT: _restrict,
}
