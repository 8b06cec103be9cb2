"""A repository's settings and workflow files on the tests' GitHub, and other repositories that it uses."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.servers.github_answers import API, REPOSITORY, WHEN, Answer, Asked, missing, page_of, refusal
from tests.servers.github_description import blank_of
from tests.servers.github_repository import GitHub

EVERYTHING = frozenset({"actions", "administration", "contents", "environments", "secrets"})
# What GitHub says to fine-grained tokens, to a workflow's own token, and to people who are no admins.
REFUSALS = (
    "Resource not accessible by personal access token",
    "Resource not accessible by integration",
    "Must have admin rights to Repository.",
)


@dataclass(slots=True, eq=False)
class Elsewhere:
    """Another repository: its tags, and the files of each ref."""

    tags: dict[str, str] = field(default_factory=dict)
    files: dict[tuple[str, str], str] = field(default_factory=dict)  # by ref and path
    ahead: dict[str, int] = field(default_factory=dict)  # by commit, how many commits its newest release is ahead


@dataclass(slots=True, eq=False)
class Settings:
    """The settings of the one repository, and what the token may see of them."""

    sees: set[str] = field(default_factory=lambda: set(EVERYTHING))
    refusal: str = REFUSALS[0]
    branch: str = "main"
    is_archived: bool = False
    owner: str = "Organization"  # or User
    is_enabled: bool = True
    allowed: str = "all"
    pins: bool = False
    selected: dict[str, Any] = field(default_factory=dict)
    default: str = "read"
    approves: bool = False
    is_immutable: bool = True
    files: dict[str, bytes] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)
    shared_secrets: set[str] = field(default_factory=set)
    environment_secrets: dict[str, set[str]] = field(default_factory=dict)
    elsewhere: dict[str, Elsewhere] = field(default_factory=dict)
    policies: list[tuple[str, str, str]] = field(default_factory=list)  # environment, pattern, kind

    def put(self, values: Mapping[str, object]) -> None:
        """Set some of it."""
        for name, value in values.items():
            setattr(self, name, value)


def settle(hub: GitHub) -> Settings:
    """Give the server's repository settings, and return them."""
    settings = Settings()
    hub.routes[:0] = [
        (method, pattern, functools.partial(_guarded, settings, permission, route))
        for method, pattern, permission, route in ROUTES
    ]
    return settings


def _guarded(
    settings: Settings, permission: str, route: Callable[..., Answer], hub: GitHub, asked: Asked, *parts: str
) -> Answer:
    if permission and permission not in settings.sees:
        return refusal(403, settings.refusal)
    return route(settings, hub, asked, *parts)


def get_repository(settings: Settings, hub: GitHub, _: Asked) -> Answer:
    own = {
        "url": f"{hub.url}{API}",
        "html_url": f"{hub.url}/{REPOSITORY}",
        "full_name": REPOSITORY,
        "default_branch": settings.branch,
        "archived": settings.is_archived,
        "owner": blank_of("simple-user") | {"login": REPOSITORY.partition("/")[0], "type": settings.owner},
    }
    return Answer(200, blank_of("full-repository") | own)


def get_policy(settings: Settings, _: GitHub, __: Asked) -> Answer:
    if not settings.is_enabled:
        return Answer(200, {"enabled": False})
    document = {"enabled": True, "allowed_actions": settings.allowed, "sha_pinning_required": settings.pins}
    return Answer(200, document)


def get_selected(settings: Settings, _: GitHub, __: Asked) -> Answer:
    if settings.allowed != "selected":
        return refusal(409, "Conflict")
    return Answer(200, settings.selected)


def get_default(settings: Settings, _: GitHub, __: Asked) -> Answer:
    document = {
        "default_workflow_permissions": settings.default,
        "can_approve_pull_request_reviews": settings.approves,
    }
    return Answer(200, document)


def set_default(settings: Settings, _: GitHub, asked: Asked) -> Answer:
    settings.default = asked.document.get("default_workflow_permissions", settings.default)
    settings.approves = asked.document.get("can_approve_pull_request_reviews", settings.approves)
    return Answer(204)


def get_immutable(settings: Settings, _: GitHub, __: Asked) -> Answer:
    return Answer(200, {"enabled": True, "enforced_by_owner": False}) if settings.is_immutable else missing()


def list_workflows(settings: Settings, _: GitHub, asked: Asked) -> Answer:
    paths = sorted(settings.files)
    states = [
        blank_of("workflow") | {"id": number, "path": path, "name": path, "state": settings.states.get(path, "active")}
        for number, path in enumerate(paths, 1)
    ]
    return page_of(asked, "workflows", states)


def enable_workflow(settings: Settings, _: GitHub, __: Asked, name: str) -> Answer:
    path = f".github/workflows/{name}"
    if path not in settings.files:
        return missing()
    settings.states[path] = "active"
    return Answer(204)


def list_environments(settings: Settings, _: GitHub, asked: Asked) -> Answer:
    return page_of(asked, "environments", [_environment(name, said) for name, said in settings.environments.items()])


def _environment(name: str, said: dict[str, Any]) -> dict[str, Any]:
    return {**blank_of("environment"), "name": name, **said}


def get_environment(settings: Settings, _: GitHub, __: Asked, name: str) -> Answer:
    if name not in settings.environments:
        return missing()
    return Answer(200, _environment(name, settings.environments[name]))


def set_environment(settings: Settings, _: GitHub, asked: Asked, name: str) -> Answer:
    settings.environments[name] = asked.document
    return Answer(200, _environment(name, asked.document))


def add_branch_policy(settings: Settings, _: GitHub, asked: Asked, name: str) -> Answer:
    if name not in settings.environments:
        return missing()
    settings.policies.append((name, asked.document["name"], asked.document["type"]))
    return Answer(200, {"id": len(settings.policies), "node_id": "text", **asked.document})


def list_secrets(settings: Settings, _: GitHub, asked: Asked) -> Answer:
    return page_of(asked, "secrets", _secrets(settings.secrets))


def list_shared_secrets(settings: Settings, _: GitHub, asked: Asked) -> Answer:
    return page_of(asked, "secrets", _secrets(settings.shared_secrets))


def list_environment_secrets(settings: Settings, _: GitHub, asked: Asked, name: str) -> Answer:
    return page_of(asked, "secrets", _secrets(settings.environment_secrets.get(name, set())))


def _secrets(names: set[str]) -> list[dict[str, Any]]:
    return [{"name": name, "created_at": WHEN, "updated_at": WHEN} for name in sorted(names)]


def get_contents(settings: Settings, hub: GitHub, asked: Asked, path: str) -> Answer:
    """Return a file with its bytes, or what a folder holds."""
    if path in settings.files:
        return Answer(200, _file(hub, path, settings.files[path], whole=True))
    inside = {name: data for name, data in settings.files.items() if name.startswith(f"{path}/")}
    listed = [_file(hub, name, data, whole=False) for name, data in inside.items()]
    return Answer(200, listed) if listed and asked.query["ref"] == settings.branch else missing()


def _file(hub: GitHub, path: str, data: bytes, *, whole: bool) -> dict[str, Any]:
    address = f"{hub.url}{API}/contents/{quote(path)}"
    document = {
        "type": "file",
        "size": len(data),
        "name": path.rpartition("/")[2],
        "path": path,
        "sha": hashlib.sha1(data, usedforsecurity=False).hexdigest(),
        "url": address,
        "git_url": None,
        "html_url": None,
        "download_url": None,
        "_links": {"git": None, "html": None, "self": address},
    }
    return {**document, "encoding": "base64", "content": base64.encodebytes(data).decode()} if whole else document


def get_elsewhere(settings: Settings, hub: GitHub, asked: Asked, repository: str, path: str) -> Answer:
    known = settings.elsewhere.get(repository.lower())
    text = known.files.get((asked.query["ref"], path)) if known else None
    return missing() if text is None else Answer(200, _file(hub, path, text.encode(), whole=True))


def list_tags(settings: Settings, hub: GitHub, asked: Asked, repository: str) -> Answer:
    if repository.lower() not in settings.elsewhere:
        return missing()
    tags = settings.elsewhere[repository.lower()].tags
    whole = [
        blank_of("tag") | {"name": name, "commit": {"sha": commit, "url": f"{hub.url}/"}}
        for name, commit in tags.items()
    ]
    size, page = int(asked.query.get("per_page", 30)), int(asked.query.get("page", 1))
    return Answer(200, whole[size * (page - 1) : size * page])


def compare(settings: Settings, _: GitHub, __: Asked, repository: str, base: str, ___: str) -> Answer:
    known = settings.elsewhere.get(repository.lower())
    if not known or base not in known.ahead:
        return missing()
    commit = blank_of("commit") | {"author": {}, "committer": {}}
    document = blank_of("commit-comparison") | {"base_commit": commit, "merge_base_commit": commit}
    return Answer(200, document | {"ahead_by": known.ahead[base], "behind_by": 0, "total_commits": known.ahead[base]})


OTHER = rf"/repos/(?!{re.escape(REPOSITORY)}/)([^/]+/[^/]+)"
ROUTES: tuple[tuple[str, str, str, Callable[..., Answer]], ...] = (
    ("GET", API, "", get_repository),
    ("GET", rf"{API}/actions/permissions", "administration", get_policy),
    ("GET", rf"{API}/actions/permissions/selected-actions", "administration", get_selected),
    ("GET", rf"{API}/actions/permissions/workflow", "administration", get_default),
    ("PUT", rf"{API}/actions/permissions/workflow", "administration", set_default),
    ("GET", rf"{API}/immutable-releases", "administration", get_immutable),
    ("GET", rf"{API}/actions/workflows", "actions", list_workflows),
    ("PUT", rf"{API}/actions/workflows/([^/]+)/enable", "actions", enable_workflow),
    ("GET", rf"{API}/environments", "actions", list_environments),
    ("GET", rf"{API}/environments/([^/]+)", "actions", get_environment),
    ("PUT", rf"{API}/environments/([^/]+)", "administration", set_environment),
    ("POST", rf"{API}/environments/([^/]+)/deployment-branch-policies", "administration", add_branch_policy),
    ("GET", rf"{API}/environments/([^/]+)/secrets", "environments", list_environment_secrets),
    ("GET", rf"{API}/actions/secrets", "secrets", list_secrets),
    ("GET", rf"{API}/actions/organization-secrets", "secrets", list_shared_secrets),
    ("GET", rf"{API}/contents/(.+)", "contents", get_contents),
    ("GET", rf"{OTHER}/contents/(.+)", "", get_elsewhere),
    ("GET", rf"{OTHER}/tags", "", list_tags),
    ("GET", rf"{OTHER}/compare/(\w+)\.\.\.(\w+)", "", compare),
)
