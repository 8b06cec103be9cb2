"""The verb tell: keeps one issue for the owner of a platform open while its scheduled runs fail."""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ci_tools import catalog
from ci_tools.config import loader as config
from ci_tools.errors import InputError, LeftUndone, nearest
from ci_tools.formats.markdown import OWNER, code, one_line, text
from ci_tools.model.names import REPOSITORY, Name
from ci_tools.model.platforms import Platform

if TYPE_CHECKING:
    from github.Issue import Issue
    from github.IssueComment import IssueComment
    from github.Repository import Repository

    from ci_tools.github.client import Hub

PERMISSION = "issues"
ISSUE = Path(__file__).with_name("issue.txt").read_text(encoding="utf-8")
MAX_TITLE = 200  # characters; GitHub allows 256
MAX_REASON = 600  # characters
SERVER = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]+)?")
RECORD = re.compile(r"<!-- since (?P<since>[0-9: -]+ UTC), count (?P<count>[0-9]{1,6}), run (?P<run>[0-9]*) -->")
DUPLICATE = "not_planned"


class JobResult(Name):
    """The result of a job, in GitHub's words."""

    SUCCESS = "success"
    FAILURE = "failure"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"


class ActionsRun(NamedTuple):
    """A run of GitHub Actions and the address of its page; both are empty outside GitHub Actions."""

    number: str = ""
    url: str = ""

    def __str__(self) -> str:
        return f"[run {self.number}]({self.url})" if self.url else "a run outside GitHub Actions"


class News(NamedTuple):
    """The outcome of a platform's run."""

    platform: Platform
    config: str  # its path as given by the caller
    results: tuple[JobResult, ...]
    run: ActionsRun
    when: str  # 2026-11-21 04:17 UTC
    owner: str = ""
    trouble: str = ""  # why the config names no owner

    @property
    def has_failed(self) -> bool:
        """Whether any job failed."""
        return JobResult.FAILURE in self.results

    @property
    def is_well(self) -> bool:
        """Whether all jobs that ran succeeded; a run with a cancelled job proves nothing."""
        return JobResult.SUCCESS in self.results and not {JobResult.FAILURE, JobResult.CANCELLED} & {*self.results}

    @property
    def marker(self) -> str:
        """The beginning of the issue's text, by which the issue is found again."""
        platform, path = (quote(name, safe="/").replace("-", "%2D") for name in (self.platform, self.config))
        return f"<!-- fatwheel tells of {platform} in {path} -->"


class Record(NamedTuple):
    """The data stored in an issue: when the failures began, their number, and the latest run."""

    since: str
    times: int
    run: str

    def __str__(self) -> str:
        return f"<!-- since {self.since}, count {self.times}, run {self.run} -->"


def news(path: Path, platform: str, results: Iterable[str], run: ActionsRun, now: datetime) -> News:
    """Return the outcome of a platform of the config at `path`; raise InputError if there is no such platform.

    Each of `results` is one of GitHub's words, or empty. If the config is invalid, `trouble` says so and the owner is
    unknown.
    """
    if platform not in {*map(str, Platform)}:
        msg = f'--platform: there is no platform "{one_line(platform)}", {nearest(platform, map(str, Platform))}'
        raise InputError(msg)
    own = Platform(platform)
    owner, trouble = _owner(path, own)
    return News(
        platform=own,
        config=os.path.normpath(path).replace(os.sep, "/"),
        results=tuple(_result(word) for word in results if word.strip()),
        run=run,
        when=now.strftime("%Y-%m-%d %H:%M UTC"),
        owner=owner,
        trouble=trouble,
    )


def _result(word: str) -> JobResult:
    known = {*map(str, JobResult)}
    if word not in known:
        raise InputError(f'--result: GitHub has no result "{one_line(word)}", {nearest(word, known)}')
    return JobResult(word)


def _owner(path: Path, platform: Platform) -> tuple[str, str]:
    """Return the owner of a platform, or why none is known; raise InputError if the config lacks the platform."""
    try:
        request = config.load(path, catalog.load())
    except InputError as error:
        return "", f"the config cannot be read: {error.message}"
    owners = {str(one.platform): one.owner or "" for one in request.platforms}
    if platform not in owners:
        raise InputError(f'--platform: {path} has no platform "{platform}", {nearest(platform, owners)}')
    return owners[platform], "" if owners[platform] else "the config names no owner"


def run_of(environ: Mapping[str, str]) -> ActionsRun:
    """Return the current run of GitHub Actions."""
    server, repository, number = (environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    if not (SERVER.fullmatch(server) and REPOSITORY.fullmatch(repository) and re.fullmatch("[0-9]+", number)):
        return ActionsRun()
    return ActionsRun(number, f"{server}/{repository}/actions/runs/{number}")


# ---------------------------------------------------------------- the state of the issue


def tell(hub: Hub, told: News) -> str:
    """Open, update or close the one issue of a platform, and return its address; raise LeftUndone if none is needed.

    The issue is recognised by the marker at the beginning of its text, and by its author, the owner of this token.
    """
    if not told.has_failed and not told.is_well:
        shown = ", ".join(told.results) or "nothing"
        raise LeftUndone(f"{told.platform} came to {shown}, which is neither a failure nor a success")
    with hub.opened() as opened:
        if not opened.has_issues and not told.has_failed:
            raise LeftUndone(f"issues are disabled in {hub.repository}, so none about {told.platform} can be open")
        if not opened.has_issues:
            msg = f"{told.platform} fails, and its owner cannot be notified: issues are disabled in {hub.repository}"
            raise InputError(msg, hint=f"gh repo edit {hub.repository} --enable-issues, or Settings, General, Features")
        desk = _Desk(hub, opened, hub.login(opened), told)
        return _report_failure(desk) if told.has_failed else _well(desk)


@dataclass(frozen=True, slots=True)
class _Desk:
    """The issues that Fatwheel opened for one platform in a repository."""

    hub: Hub
    opened: Repository
    login: str
    told: News

    def issues(self, state: str) -> list[Issue]:
        """Return Fatwheel's issues in a state, the oldest first; issues of other authors never count."""
        query: dict[str, Any] = {"state": state, "creator": self.login}
        ours = self.hub.ask(lambda _: [one for one in self.opened.get_issues(**query) if self._is_ours(one)])
        return sorted(ours, key=lambda one: one.number)

    def _is_ours(self, one: Issue) -> bool:
        is_issue = one.html_url.endswith(f"/issues/{one.number}")  # pull requests are listed too
        return is_issue and one.user.login == self.login and (one.body or "").startswith(self.told.marker)

    def open(self) -> Issue:
        """Open an issue."""
        body = _body(self.told, Record(self.told.when, 1, self.told.run.number))

        def call(again: bool) -> Issue:  # noqa: FBT001 - the hub says whether it asks again
            found = self.issues("open") if again else []
            return found[0] if found else self.opened.create_issue(_title(self.told), body=body)

        return self.hub.ask(call)

    def update(self, issue: Issue, record: Record) -> None:
        """Update an issue, and reopen it if it is closed."""
        title, body = _title(self.told), _body(self.told, record)
        self.hub.ask(lambda _: issue.edit(title=title, body=body, state="open"))

    def say(self, issue: Issue, words: str) -> None:
        """Comment on an issue, unless the same comment is there already."""

        def call(_: bool) -> IssueComment | None:  # noqa: FBT001 - the hub says whether it asks again
            said = any((one.body or "").strip() == words for one in issue.get_comments())
            return None if said else issue.create_comment(words)

        self.hub.ask(call)

    def close(self, issue: Issue, words: str, reason: str) -> None:
        """Comment on an issue, and close it."""
        self.say(issue, words)
        self.hub.ask(lambda _: issue.edit(state="closed", state_reason=reason))


def _report_failure(desk: _Desk) -> str:
    """Open or update the issue of a failing platform; of two, opened by parallel runs, the older one stays."""
    found = desk.issues("open")
    if found:
        desk.update(found[0], _next(found[0], desk.told))
    else:
        issue = _reopen_issue(desk) or desk.open()
        seen = {one.number: one for one in (issue, *desk.issues("open"))}  # another run may have opened one as well
        found = [seen[number] for number in sorted(seen)]
    first, *others = found
    for other in others:
        desk.close(other, f"{first.html_url} says the same.", DUPLICATE)
    return first.html_url


def _reopen_issue(desk: _Desk) -> Issue | None:
    """Reopen the newest closed issue and return it; return None if there is none."""
    closed = desk.issues("closed")
    if not closed:
        return None
    issue, told = closed[-1], desk.told
    desk.update(issue, Record(told.when, 1, told.run.number))
    desk.say(issue, f"{_mention(told)}{told.platform} fails again: {told.run}.")
    return issue


def _well(desk: _Desk) -> str:
    found = desk.issues("open")
    if not found:
        raise LeftUndone(f"{desk.told.platform} succeeds, and no issue about it is open")
    for issue in found:
        desk.close(issue, f"{desk.told.platform} succeeds again: {desk.told.run}.", "completed")
    return found[0].html_url


def _next(issue: Issue, told: News) -> Record:
    """Return the updated record of an open issue; repeated attempts of one run count once."""
    known = RECORD.search(issue.body or "")
    if known is None:
        return Record(told.when, 1, told.run.number)
    is_same = bool(told.run.number) and known["run"] == told.run.number
    return Record(known["since"], int(known["count"]) + (not is_same), told.run.number)


# ---------------------------------------------------------------- the text of the issue


def _title(told: News) -> str:
    title = f"The scheduled runs of {told.platform} fail ({one_line(told.config)})"
    return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 2]}…)"


def _body(told: News, record: Record) -> str:
    """Return the text of the issue; it begins with the marker and the record."""
    times = "once" if record.times == 1 else f"{record.times:,} times"
    quoted = shlex.quote(told.config)
    commands = {"plan": f"plan {quoted} --only {told.platform}", "build": f"build {quoted} --job JOB --out dist"}
    shown = {name: code(f"fatwheel {command}") for name, command in commands.items()}
    named = {"mention": _mention(told), "owner": _describe_owner(told), "config": code(told.config)}
    return ISSUE.format(told=told, record=record, times=times, results=", ".join(told.results), **named, **shown)


def _mention(told: News) -> str:
    """Return a mention that makes GitHub notify the owner; "" unless the owner is a user or team."""
    return f"{told.owner}\n\n" if OWNER.fullmatch(told.owner) else ""


def _describe_owner(told: News) -> str:
    if not told.owner:
        return f'none, {text(told.trouble[:MAX_REASON])}; `owner: "@org/team"` there names whom to notify'
    unknown = "" if OWNER.fullmatch(told.owner) else ", not a user or team (`@org/team`), so nobody is notified"
    return f"{code(told.owner)}{unknown}"
