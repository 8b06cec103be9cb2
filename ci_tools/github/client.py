"""A client of GitHub's API, on PyGithub: it waits, retries, and explains a refusal with the setting that fixes it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import requests
from github import Auth, Github
from github.Consts import DEFAULT_BASE_URL
from github.GithubException import GithubException, UnknownObjectException

from ci_tools.catalog.targets.github import GITHUB
from ci_tools.errors import FatwheelError, InputError, MachineError, Rejected
from ci_tools.machine.http.policy import REQUEST, SILENCE, innermost, is_temporary
from ci_tools.machine.waits import Waits
from ci_tools.model.names import REPOSITORY

if TYPE_CHECKING:
    from github.Repository import Repository
    from github.Requester import Requester

    from ci_tools.machine.context import Outside


Answer = TypeVar("Answer")

TOKENS = ("GH_TOKEN", "GITHUB_TOKEN")  # the first that is set is used, as in gh
WHOSE = "query { viewer { login } }"  # also works with a workflow's own token, unlike `GET /user`
HERE = frozenset({"127.0.0.1", "localhost", "::1"})  # only here may a token be sent unencrypted
TRIES = REQUEST.tries
TIMEOUT = SILENCE
# GitHub's guidelines: one second between writes, and a minute after a secondary limit that names no time
# (https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api).
PAUSE = 1.0  # seconds between two writes
PATIENCE = 300.0  # the longest total wait for one request, in seconds
SECONDARY = 60.0  # seconds to wait if GitHub names no time
BUSY = 5  # pauses to wait for another publisher before the next look
TOO_MANY = 429
AGAIN = "nothing is lost: the same command continues where this one stopped"
LOGIN = 'export GH_TOKEN="$(gh auth token)"'
# https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
ANONYMOUS = "without a token GitHub answers 60 requests an hour, with one 5,000"
# The errors of PyGithub if an answer is not GitHub's: it asserts, for example, that addresses in it are on its host.
NO_GITHUB = (AssertionError, AttributeError, KeyError, RuntimeError, TypeError, ValueError)


class Failed(Exception):
    """An attempt that failed although GitHub reported no error."""


class Busy(Failed):
    """An attempt that failed for a temporary reason, such as another publisher."""


class Forbidden(InputError):
    """GitHub does not allow the token to do this."""


class Wait(NamedTuple):
    """The wait before the next attempt, and its reason."""

    seconds: float
    why: str
    counts: bool  # whether the attempt counts against TRIES


def usual_pause() -> float:
    """Return the seconds between two writes."""
    return PAUSE


def found_or_none(call: Callable[[], Answer]) -> Answer | None:
    """Return the result of a call to GitHub's API; None on HTTP 404."""
    try:
        return call()
    except UnknownObjectException:
        return None


@dataclass(frozen=True, slots=True)
class Hub:
    """One repository on GitHub, or on a server with the same API at `base_url`."""

    repository: str  # OWNER/REPO
    outside: Outside = field(repr=False)  # not in the repr: it holds the token
    base_url: str = ""  # empty: GITHUB_API_URL, or GitHub itself
    pause: float = field(default_factory=usual_pause)
    patience: float = PATIENCE
    permission: str = "contents"  # the permission that its writes need, in the notation of workflows

    @contextmanager
    def opened(self, *, anonymous: bool = False) -> Iterator[Repository]:
        """Yield the repository; raise InputError if its name, the token or the address is wrong.

        With `anonymous`, no token is needed: anybody can read a public repository. A token is still used if set.
        """
        if not REPOSITORY.fullmatch(self.repository):
            raise InputError(f'"{printable(self.repository)}" is not the name of a repository, expected OWNER/REPO')
        client = Github(
            auth=None if anonymous and not self._tokens() else Auth.Token(self._token()[1]),
            base_url=self._address(),
            timeout=TIMEOUT,
            per_page=100,
            retry=0,  # PyGithub would wait silently
            seconds_between_requests=0,
            seconds_between_writes=self.pause,
        )
        _refuse_empty(client.requester)
        with client:
            yield self.ask(lambda _: client.get_repo(self.repository))

    def ask(self, call: Callable[[bool], Answer]) -> Answer:
        """Return the result of `call`; its argument is True on a retry, since the failed attempt may have succeeded.

        Waits if GitHub asks for it, and retries temporary failures. Raises InputError or Rejected if GitHub refuses the
        request, and MachineError if it keeps failing.
        """
        # By hand, not with stamina: a wait that GitHub asks for does not count as a try, and the user sees it pass.
        again, tried, waited = False, 0, 0.0
        waits = Waits(self.outside.reporter.say)
        while True:
            try:
                with waits.over(f"{self._place()} to answer for {self.repository}"):
                    return call(again)
            except (GithubException, requests.RequestException, Failed) as error:
                wait = _wait(error, self.pause * 2**tried)
                tried += wait.counts if wait else 0
                if wait is None or tried >= TRIES or waited + wait.seconds > self.patience:
                    raise self._explain_error(error, wait) from error
            except NO_GITHUB as error:
                msg = f"{self._place()} does not answer like GitHub's API: {printable(str(error))}"
                raise MachineError(msg, hint="is GITHUB_API_URL the address of its API?") from error
            self._count_down(wait)
            again, waited = True, waited + wait.seconds

    def login(self, opened: Repository) -> str:
        """Return the login of the token's owner: a person, or a bot such as github-actions[bot]."""
        return self.ask(lambda _: str(opened.requester.graphql_query(WHOSE, {})[1]["data"]["viewer"]["login"]))

    # -- the token and the address

    @property
    def has_token(self) -> bool:
        """Whether a variable holds a token."""
        return bool(self._tokens())

    def _tokens(self) -> list[tuple[str, str]]:
        """Return the variables that hold a token, each with its token."""
        return [(name, value) for name in TOKENS if (value := self.outside.environ.get(name, "").strip())]

    def _token(self) -> tuple[str, str]:
        """Return the variable that holds the token, and the token; raise InputError if there is none."""
        found = self._tokens()
        if not found:
            msg = f"GitHub needs a token for {self.repository}, and neither {' nor '.join(TOKENS)} is set"
            hint = (
                f"on this machine: {LOGIN}; in a workflow: "
                f"env: GH_TOKEN: ${{{{ github.token }}}}, and permissions: {self.permission}: write"
            )
            raise InputError(msg, hint=hint, page="how-to/publish-a-release.md#github-releases")
        if not re.fullmatch(r"[!-~]+", found[0][1]):  # the error of requests would repeat the token
            msg = f"{found[0][0]} has a character that tokens do not have"
            raise InputError(msg, hint="set it again, without quotes, spaces or line breaks inside")
        return found[0]

    def _address(self) -> str:
        address = (self.base_url or self.outside.environ.get("GITHUB_API_URL") or DEFAULT_BASE_URL).rstrip("/")
        parts = urlsplit(address)
        if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in HERE)):
            msg = f"a token cannot be sent to {printable(address)}, expected https://HOST/api/v3"
            raise InputError(msg, hint="GITHUB_API_URL is the address of GitHub's API; without it, github.com is used")
        return address

    def _place(self) -> str:
        return urlsplit(self._address()).hostname or ""

    # -- waiting

    def _count_down(self, wait: Wait) -> None:
        """Wait, and show the remaining seconds."""
        if wait.counts:
            self.outside.reporter.say(f"{wait.why}, trying again")
            time.sleep(wait.seconds)
            return
        with self.outside.reporter.step(f"{wait.why}, waiting {wait.seconds:.0f} s") as step:
            end = time.monotonic() + wait.seconds
            while (left := end - time.monotonic()) > 0:
                step.waiting(left)
                time.sleep(min(1.0, left))

    # -- errors

    def _explain_error(self, error: Exception, wait: Wait | None) -> FatwheelError:
        """Return the error to show to the user."""
        if wait is not None:
            longer = f"; it asks to wait {wait.seconds:.0f} s more" if not wait.counts else ""
            hint = AGAIN if wait.counts or self._tokens() else f"{ANONYMOUS}: {LOGIN}"
            return MachineError(f"a request to {self._place()} failed: {wait.why}{longer}", hint=hint)
        if not isinstance(error, GithubException):
            return MachineError(f"{self._place()}: {printable(str(error))}", hint=AGAIN)
        return self._refusal(error)

    def _refusal(self, error: GithubException) -> FatwheelError:
        """Return the error for a request that GitHub would refuse again."""
        said, codes = _error_text(error), requests.codes
        if not self._tokens() and error.status in {codes.unauthorized, codes.forbidden, codes.not_found}:
            return self._refusal_of_anonymous(error)
        token = self._token()[0] if self._tokens() else ""
        if error.status == codes.unauthorized:
            msg = f"GitHub rejects the token in {token}: {said}"
            return InputError(msg, hint='it expired or was revoked: export GH_TOKEN="$(gh auth token)", or create one')
        if error.status == codes.forbidden:
            msg = f"GitHub does not allow this token to do that in {self.repository}: {said}"
            return Forbidden(msg, hint=self._find_fix(error), page="how-to/check-a-repository.md#the-answer-403")
        if error.status == codes.not_found:
            where = f"{self.repository} does not exist on {self._place()}"
            msg = f"{where}, or is private and the token in {token} may not read it"
            return InputError(msg, hint=f"check the name, and what the token may read: gh repo view {self.repository}")
        if error.status == codes.unprocessable_entity:
            msg = f"GitHub rejects a request for {self.repository}: {said}"
            return Rejected(msg, hint=_rule_hint(said))
        return MachineError(f"GitHub answers {error.status} for {self.repository}: {said}", hint=AGAIN)

    def _refusal_of_anonymous(self, error: GithubException) -> FatwheelError:
        """Return the error for a request without a token that GitHub refuses: a private repository is as if absent."""
        where = f"{self.repository} on {self._place()}"
        if error.status == requests.codes.not_found:
            msg = f"{where} does not exist, or is private, which only a token shows"
            return InputError(msg, hint=f"check the name; for a private one: {LOGIN}")
        msg = f"GitHub does not answer that of {where} without a token: {_error_text(error)}"
        return Forbidden(msg, hint=LOGIN)

    def _find_fix(self, error: GithubException) -> str:
        """Return the setting or command that makes GitHub allow a write that it forbids."""
        said, headers = _error_text(error).lower(), _headers(error)
        owner, named = self.repository.partition("/")[0], self.permission.replace("-", " ").capitalize()
        if "sso" in said or "saml" in said or "x-github-sso" in headers:
            page = re.search(r"url=(https://\S+)", headers.get("x-github-sso", ""))
            return f"let the token into {owner} by single sign-on: {printable(page[1]) if page else 'gh auth refresh'}"
        for words, how in FIXES:
            if any(word in said for word in words):
                values = {"repository": self.repository, "owner": owner, "permission": self.permission, "named": named}
                return " ".join(how.format(**values).split())
        if "x-oauth-scopes" in headers and "repo" not in re.split(r",\s*", headers["x-oauth-scopes"]):
            return "the token lacks the scope `repo`: gh auth refresh -s repo"
        wanted = headers.get("x-accepted-github-permissions", f"{self.permission.replace('-', '_')}=write")
        return f"the token needs: {printable(wanted)}; in a workflow: permissions: {self.permission}: write"


# Phrases in GitHub's messages, and the fixes for their causes.
FIXES = (
    (
        ("by integration",),
        """give the job `permissions: {permission}: write`; where that is refused: Settings, Actions, General, Workflow
permissions of {repository}""",
    ),
    (
        ("by personal access token",),
        """give the token the permission `{named}: Read and write` for {repository}: Settings, Developer settings,
Fine-grained tokens""",
    ),
    (
        ("forbids access", "organization has enabled", "token lifetime", "restrictions"),
        """the organisation {owner} decides which tokens it accepts: Settings, Personal access tokens, or Third-party
access, of the organisation; in a workflow use ${{{{ github.token }}}}""",
    ),
    (
        ("ip allow list", "ip address"),
        "the organisation {owner} accepts writes only from its own IP addresses: run it there",
    ),
    (("archived",), "{repository} is archived: gh repo unarchive {repository}"),
    (("must have push", "must have admin", "write access"), "ask an owner of {repository} for the role Write"),
)


def open_hub(target: str, outside: Outside) -> Hub:
    """Return the client for a repository that is named as a target; raise InputError if it names none."""
    kind, _, repository = target.partition(":")
    if kind != GITHUB.prefix:
        raise InputError(f'"{printable(target)}" is not a repository, expected {GITHUB.form}')
    return Hub(repository, outside)


def _rule_hint(said: str) -> str:
    """Return a hint for a release that GitHub considers invalid."""
    if "immutable" in said:
        return "an immutable release never changes, and its tag cannot be used again: raise the version"
    if "pre_receive" in said or "rule" in said:
        return "a ruleset forbids the tag: Settings, Rules, Rulesets: allow the account that publishes to create tags"
    if "target_commitish" in said:
        return "push the commit, or the tag, and run the same command again"
    return AGAIN


def _refuse_empty(requester: Requester) -> None:
    """Let an answer without content to a GET, such as a proxy's redirect, be asked for again.

    PyGithub takes it for a list of nothing, and a release that is there would be created again.
    """
    ask = requester.requestJsonAndCheck

    def ask_for_content(verb: str, *arguments: Any, **more: Any) -> tuple[dict[str, Any], Any]:  # noqa: ANN401 - PyGithub's
        headers, data = ask(verb, *arguments, **more)
        if verb == "GET" and data is None:
            raise Failed("the answer has no content")
        return headers, data

    requester.requestJsonAndCheck = ask_for_content  # type: ignore[method-assign]


def _wait(error: Exception, backoff: float) -> Wait | None:
    """Return how long to wait after an error; None if a retry is useless."""
    if isinstance(error, Failed):
        is_busy = isinstance(error, Busy)
        return Wait(max(BUSY * backoff, 0.2) if is_busy else backoff, str(error), counts=not is_busy)
    if not isinstance(error, GithubException):
        return Wait(backoff, f"the connection failed: {innermost(error)}", counts=True)
    said, headers = _error_text(error).lower(), _headers(error)
    limited = "rate limit" in said or "abuse" in said or headers.get("x-ratelimit-remaining") == "0"
    if error.status == TOO_MANY or (error.status == requests.codes.forbidden and (limited or "retry-after" in headers)):
        return Wait(_retry_delay(headers), "GitHub's rate limit is reached", counts=False)
    if is_temporary(error.status):
        return Wait(backoff, f"GitHub answers {error.status}", counts=True)
    return None


def _retry_delay(headers: Mapping[str, str]) -> float:
    """Return the seconds that GitHub asks to wait, measured by GitHub's clock, not by this machine's."""
    if headers.get("retry-after", "").isdecimal():
        return float(headers["retry-after"]) + 0.1
    reset = headers.get("x-ratelimit-reset", "")
    if headers.get("x-ratelimit-remaining") != "0" or not reset.isdecimal():
        return SECONDARY
    try:
        now = parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError):
        now = time.time()
    return max(float(reset) - now, 0) + 1  # the reset may come at any moment of that second


def _headers(error: GithubException) -> dict[str, str]:
    return {name.lower(): str(value) for name, value in (error.headers or {}).items()}


def _error_text(error: GithubException) -> str:
    """Return GitHub's own message, and the fields it considers wrong."""
    data: Any = error.data if isinstance(error.data, dict) else {}
    errors = data.get("errors")
    details = [_detail(one) for one in errors] if isinstance(errors, list) else []
    return printable("; ".join([str(data.get("message") or error.message or error.status), *details]))


def _detail(error: object) -> str:
    if not isinstance(error, dict):
        return str(error)
    return " ".join(str(error[key]) for key in ("resource", "field", "code", "message") if error.get(key))


def printable(text: str, most: int = 300) -> str:
    """Return an untrusted text as one printable line, cut to `most` characters."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= most else f"{line[:most]}…"


WRITES = frozenset({"admin", "write"})  # one of these, too, for `maintain` and for an organisation's own roles
PERSON = re.compile(r"[A-Za-z0-9_-]{1,100}")  # of a person; an app such as dependabot[bot] has no such permission


def ask_permission(hub: Hub, login: str) -> str:
    """Return what a person may do in a repository: "admin", "write", "read" or "none".

    What counts is the answer of now: an event's `author_association` says MEMBER of who may only read, and CONTRIBUTOR
    of a member that is private. Raises FatwheelError if GitHub does not say it. It takes `metadata: read`, which a
    workflow's token always has (Metadata, in "Permissions required for GitHub Apps").
    https://docs.github.com/en/rest/collaborators/collaborators#get-repository-permissions-for-a-user
    https://docs.github.com/en/rest/authentication/permissions-required-for-github-apps
    """
    if not PERSON.fullmatch(login):
        return "none"
    with hub.opened() as repository:
        found = hub.ask(lambda _: found_or_none(lambda: str(repository.get_collaborator_permission(login))))
    return found or "none"  # there is nobody of that name
