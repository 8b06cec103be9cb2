"""Issues, pull requests and their comments on the tests' GitHub, and whose token asks."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.servers.github_answers import API, REPOSITORY, WHEN, Answer, Asked, missing, paged, refusal
from tests.servers.github_description import blank_of
from tests.servers.github_repository import GitHub

BOT = "github-actions[bot]"
LONGEST = 65_536  # characters of a text
READ_ONLY = "Resource not accessible by integration"


@dataclass(slots=True, eq=False)
class Said:
    """One comment."""

    id: int
    number: int
    author: str
    body: str


@dataclass(slots=True, eq=False)
class Opened:
    """One issue, or a pull request seen as one."""

    number: int
    author: str
    title: str
    body: str | None
    state: str = "open"
    reason: str | None = None
    is_pull: bool = False


@dataclass(slots=True, eq=False)
class Talk:
    """All that is said in the one repository."""

    whose: str = BOT  # the token
    may_write: bool = True
    has_issues: bool = True
    issues: list[Opened] = field(default_factory=list)
    comments: list[Said] = field(default_factory=list)
    pulls: dict[int, str] = field(default_factory=dict)  # where its branch is, by its number
    rights: dict[str, str] = field(default_factory=dict)  # what people may do; anybody may read
    meanwhile: list[Callable[[], object]] = field(default_factory=list)  # done when the next one is opened or written
    count: int = 0

    def open(self, title: str, body: str | None, *, author: str = "", is_pull: bool = False) -> Opened:
        """Open an issue."""
        self.count += 1
        opened = Opened(self.count, author or self.whose, title, body, is_pull=is_pull)
        self.issues.append(opened)
        return opened

    def say(self, number: int, body: str, *, author: str = "") -> Said:
        """Write a comment."""
        self.count += 1
        said = Said(self.count, number, author or self.whose, body)
        self.comments.append(said)
        return said

    def of(self, number: int) -> list[str]:
        """Return the comments of an issue."""
        return [said.body for said in self.comments if said.number == number]


def settle(hub: GitHub, talk: Talk | None = None) -> Talk:
    """Give the server's repository issues and pull requests, and return them."""
    talk = talk or Talk()
    hub.routes[:0] = [(method, pattern, functools.partial(_guarded, talk, route)) for method, pattern, route in ROUTES]
    return talk


def _guarded(talk: Talk, route: Callable[..., Answer], hub: GitHub, asked: Asked, *parts: str) -> Answer:
    if asked.method != "GET" and asked.path != "/graphql":
        if not talk.may_write:
            return refusal(403, READ_ONLY)
        if asked.body and len(asked.document.get("body") or "") > LONGEST:
            return refusal(422, f"Validation Failed: body is too long (maximum is {LONGEST} characters)")
        if asked.method == "POST":
            done, talk.meanwhile = talk.meanwhile, []
            for one in done:
                one()
    return route(talk, hub, asked, *parts)


def whose(talk: Talk, _: GitHub, asked: Asked) -> Answer:
    """Answer the one GraphQL query that we know."""
    if not re.fullmatch(r"query\s*\{\s*viewer\s*\{\s*login\s*\}\s*\}", asked.document["query"]):
        return Answer(200, {"errors": [{"message": "Parse error"}]})
    return Answer(200, {"data": {"viewer": {"login": talk.whose}}})


def get_repository(talk: Talk, hub: GitHub, _: Asked) -> Answer:
    own = {"url": f"{hub.url}{API}", "html_url": f"{hub.url}/{REPOSITORY}", "full_name": REPOSITORY}
    return Answer(200, blank_of("full-repository") | own | {"has_issues": talk.has_issues})


def list_issues(talk: Talk, hub: GitHub, asked: Asked) -> Answer:
    """Return issues and pull requests, as GitHub does, the newest first."""
    if not talk.has_issues:
        return refusal(410, "Issues has been disabled in this repository.")
    state, creator = asked.query.get("state", "open"), asked.query.get("creator", "")
    found = [one for one in talk.issues if state in {one.state, "all"} and creator.lower() in {"", one.author.lower()}]
    return paged_with_query(asked, hub, [issue_document(hub, one) for one in reversed(found)])


def create_issue(talk: Talk, hub: GitHub, asked: Asked) -> Answer:
    if not talk.has_issues:
        return refusal(410, "Issues has been disabled in this repository.")
    opened = talk.open(asked.document["title"], asked.document.get("body"))
    return Answer(201, issue_document(hub, opened))


def get_issue(talk: Talk, hub: GitHub, _: Asked, number: str) -> Answer:
    found = _issue(talk, number)
    return Answer(200, issue_document(hub, found)) if found else missing()


def change_issue(talk: Talk, hub: GitHub, asked: Asked, number: str) -> Answer:
    found = _issue(talk, number)
    if not found:
        return missing()
    asked_for = asked.document
    found.title, found.body = asked_for.get("title", found.title), asked_for.get("body", found.body)
    found.state = asked_for.get("state", found.state)
    found.reason = asked_for.get("state_reason") if found.state == "closed" else None
    return Answer(200, issue_document(hub, found))


def list_comments(talk: Talk, hub: GitHub, asked: Asked, number: str) -> Answer:
    if not _issue(talk, number):
        return missing()
    return paged(asked, hub, [_comment(hub, said) for said in talk.comments if said.number == int(number)])


def create_comment(talk: Talk, hub: GitHub, asked: Asked, number: str) -> Answer:
    if not _issue(talk, number):
        return missing()
    return Answer(201, _comment(hub, talk.say(int(number), asked.document["body"])))


def change_comment(talk: Talk, hub: GitHub, asked: Asked, number: str) -> Answer:
    found = next((said for said in talk.comments if said.id == int(number)), None)
    if not found:
        return missing()
    found.body = asked.document["body"]
    return Answer(200, _comment(hub, found))


def remove_comment(talk: Talk, _: GitHub, __: Asked, number: str) -> Answer:
    found = next((said for said in talk.comments if said.id == int(number)), None)
    if not found:
        return missing()
    talk.comments.remove(found)
    return Answer(204)


def get_pull(talk: Talk, hub: GitHub, _: Asked, number: str) -> Answer:
    if int(number) not in talk.pulls:
        return missing()
    own = f"{hub.url}{API}/pulls/{number}"
    ends = {
        side: blank_of("pull-request")[side] | {"repo": blank_of("repository") | {"full_name": name}}
        for side, name in (("head", talk.pulls[int(number)]), ("base", REPOSITORY))
    }
    address = {"url": own, "issue_url": f"{hub.url}{API}/issues/{number}", "number": int(number)}
    return Answer(200, blank_of("pull-request") | address | ends)


def get_permission(talk: Talk, _: GitHub, __: Asked, login: str) -> Answer:
    """Answer what somebody may do; an app is nobody."""
    if login.endswith("[bot]"):
        return missing()
    permission = talk.rights.get(login, "read")
    return Answer(200, {"permission": permission, "role_name": permission, "user": None})


def _issue(talk: Talk, number: str) -> Opened | None:
    return next((one for one in talk.issues if one.number == int(number)), None)


def _user(login: str) -> dict[str, Any]:
    user: dict[str, Any] = blank_of("simple-user")
    return user | {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"}


def issue_document(hub: GitHub, opened: Opened) -> dict[str, Any]:
    """Return what the API says of an issue."""
    own = f"{hub.url}{API}/issues/{opened.number}"
    addresses = {"diff_url": None, "html_url": None, "patch_url": None, "url": None}
    document: dict[str, Any] = blank_of("issue")
    return document | {
        "id": opened.number,
        "number": opened.number,
        "title": opened.title,
        "body": opened.body,
        "state": opened.state,
        "user": _user(opened.author),
        "url": own,
        "comments_url": f"{own}/comments",
        "html_url": f"{hub.url}/{REPOSITORY}/{'pull' if opened.is_pull else 'issues'}/{opened.number}",
        **({"state_reason": opened.reason} if opened.reason else {}),
        **({"pull_request": addresses} if opened.is_pull else {}),
    }


def _comment(hub: GitHub, said: Said) -> dict[str, Any]:
    place = f"{hub.url}/{REPOSITORY}/issues/{said.number}#issuecomment-{said.id}"
    document: dict[str, Any] = blank_of("issue-comment")
    return document | {
        "id": said.id,
        "body": said.body,
        "user": _user(said.author),
        "url": f"{hub.url}{API}/issues/comments/{said.id}",
        "html_url": place,
        "created_at": WHEN,
    }


def paged_with_query(asked: Asked, hub: GitHub, whole: list[dict[str, Any]]) -> Answer:
    """Return one page; the address of the next one keeps what else was asked."""
    answer = paged(asked, hub, whole)
    kept = "".join(f"&{name}={value}" for name, value in asked.query.items() if name not in {"per_page", "page"})
    following = {name: value.replace(">;", f"{kept}>;") for name, value in answer.headers.items()}
    return answer._replace(headers=following)


ROUTES: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
    ("POST", "/graphql", whose),
    ("GET", API, get_repository),
    ("GET", rf"{API}/issues", list_issues),
    ("POST", rf"{API}/issues", create_issue),
    ("GET", rf"{API}/issues/(\d+)", get_issue),
    ("PATCH", rf"{API}/issues/(\d+)", change_issue),
    ("GET", rf"{API}/issues/(\d+)/comments", list_comments),
    ("POST", rf"{API}/issues/(\d+)/comments", create_comment),
    ("PATCH", rf"{API}/issues/comments/(\d+)", change_comment),
    ("DELETE", rf"{API}/issues/comments/(\d+)", remove_comment),
    ("GET", rf"{API}/pulls/(\d+)", get_pull),
    ("GET", rf"{API}/collaborators/([^/]+)/permission", get_permission),
)
