"""The verb comment: keeps one comment of a pull request or an issue equal to the content of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from ci_tools.errors import InputError, LeftUndone
from ci_tools.github.client import Forbidden, Hub, found_or_none

if TYPE_CHECKING:
    from github.IssueComment import IssueComment


Found = TypeVar("Found")

PERMISSION = "pull-requests"
MOST = 65_536  # characters that GitHub accepts; counted in UTF-16 code units, to be safe
CUT = "*GitHub accepts at most {most:,} characters, so the end is cut off here; the file has all of it.*\n\n"
LARGEST = 16_000_000  # bytes of a file
FORK = "pull request {number} comes from a fork, whose runs may not write here: it gets no comment"


def read(path: Path) -> str:
    """Return the text of a file; raise InputError if it is missing, too large, not UTF-8 or empty."""
    if not path.is_file():
        msg = f"there is no file {path}, expected the Markdown of a comment"
        raise InputError(msg, hint="`fatwheel plan --against REV --format markdown` writes one")
    if path.stat().st_size > LARGEST:
        raise InputError(f"{path} has more than {LARGEST:,} bytes, expected the Markdown of a comment")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    if not text.strip():
        raise InputError(f"{path} is empty, expected the Markdown of a comment")
    return text


def comment(hub: Hub, number: int, text: str, name: str) -> str:
    """Create or update the one comment of that name in a pull request, and return its address.

    The comment is recognised by a marker at its beginning and by its author, the owner of this token. Raises LeftUndone
    for a pull request from a fork, whose runs may not write, and InputError if there is no such pull request.
    """
    with hub.opened() as opened:
        pull = _find(hub, f"pull request {number}", lambda: opened.get_pull(number), PERMISSION)
        thread = _Thread(hub, pull.get_issue_comments, pull.create_issue_comment, hub.login(opened), marker(name))
        try:
            return _upsert_comment(thread, fit_comment(thread.marker, text))
        except Forbidden as error:
            if pull.head.repo and pull.head.repo.full_name == pull.base.repo.full_name:
                raise
            raise LeftUndone(FORK.format(number=number)) from error


def comment_on_issue(hub: Hub, number: int, text: str, name: str) -> str:
    """Create or update the one comment of that name on an issue, and return its address, as `comment` does.

    Raises InputError if there is no such issue.
    """
    with hub.opened() as opened:
        issue = _find(hub, f"issue {number}", lambda: opened.get_issue(number), "issues")
        thread = _Thread(hub, issue.get_comments, issue.create_comment, hub.login(opened), marker(name))
        return _upsert_comment(thread, fit_comment(thread.marker, text))


def marker(name: str) -> str:
    """Return the invisible beginning of a comment of that name."""
    # a name with `-->` would end the comment
    return f"<!-- fatwheel comment {quote(name, safe='').replace('-', '%2D')} -->\n"


def fit_comment(head: str, text: str) -> str:
    """Return a comment of at most the length that GitHub accepts: a longer `text` is cut at the end of a line.

    A sentence that says so comes first: at the end, it would be swallowed by any markup that the cut left open.
    """
    if _length(head + text) <= MOST:
        return head + text
    head += CUT.format(most=MOST)
    kept = text[:MOST]
    while (over := _length(head + kept) - MOST) > 0:
        kept = kept[: -max(over // 2, 1)]  # a character has one or two units: never too much is cut
    return head + kept[: kept.rfind("\n") + 1 or None]


def _length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@dataclass(frozen=True, slots=True)
class _Thread:
    """The comments of a pull request or an issue, and the means to recognise Fatwheel's own."""

    hub: Hub
    listed: Callable[[], Iterable[IssueComment]]
    create: Callable[[str], IssueComment]
    login: str
    marker: str

    def own(self) -> list[IssueComment]:
        """Return Fatwheel's comments, the oldest first; comments of other authors never count."""
        listed = self.hub.ask(lambda _: list(self.listed()))
        written = [one for one in listed if one.user and one.user.login == self.login]
        ours = [one for one in written if plain(one.body).startswith(self.marker.strip())]
        return sorted(ours, key=lambda one: one.id)

    def add(self, text: str) -> IssueComment:
        def call(again: bool) -> IssueComment:  # noqa: FBT001 - the hub says whether it asks again
            found = self.own() if again else []
            return found[0] if found else self.create(text)

        return self.hub.ask(call)

    def remove(self, one: IssueComment) -> None:
        self.hub.ask(lambda _: found_or_none(one.delete))  # it may be gone already


def _upsert_comment(thread: _Thread, text: str) -> str:
    """Create or update the comment; of two, written by parallel runs, the older one stays."""
    found = thread.own()
    if not found:
        written = thread.add(text)
        seen = {one.id: one for one in (written, *thread.own())}  # another run may have written one as well
        found = [seen[number] for number in sorted(seen)]
    first, *others = found
    if plain(first.body) != plain(text):
        thread.hub.ask(lambda _: first.edit(text))
    for other in others:
        thread.remove(other)
    return first.html_url


def plain(text: str | None) -> str:
    """Return a text without the parts that GitHub may change: its line endings, and blanks around it."""
    return (text or "").replace("\r\n", "\n").strip()


def _find(hub: Hub, what: str, get: Callable[[], Found], permission: str) -> Found:
    found = hub.ask(lambda _: found_or_none(get))
    if found is None:
        msg = f"{hub.repository} has no {what}, or the token does not see it"
        raise InputError(msg, hint=f"the job needs `permissions: {permission}: write`")
    return found
