"""The releases and drafts of a unit's tag, and the mark by which ours are recognised.

A comment in a draft's notes, with the digest of the unit's files, identifies it as ours. A draft with other files is
not touched before ours is published: GitHub publishes only one release of a tag, and the other publisher gets an error.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from github.GithubException import UnknownObjectException

from ci_tools.github.client import found_or_none
from ci_tools.index.units import Unit
from ci_tools.model.request import Channel
from ci_tools.publish.notes import MAX_CHARACTERS
from ci_tools.publish.targets import notice

if TYPE_CHECKING:
    from github.GitRelease import GitRelease
    from github.Repository import Repository


FULL = MAX_CHARACTERS - notice.MAX_CHARACTERS  # characters of notes, with room for the notice of a retraction
MARK = re.compile(r"<!-- fatwheel ([A-Za-z0-9-]+) sha256:([0-9a-f]{64}) -->")
FIRST = "publish the core first: its files make the release"


class Seen(NamedTuple):
    """The releases and drafts that exist for a unit's tag."""

    published: GitRelease | None
    draft: GitRelease | None  # ours, with exactly these files
    spare: tuple[GitRelease, ...]  # our superfluous drafts
    other: tuple[GitRelease, ...]  # our drafts with other files, useless once a release is published


def slug_of(unit: Unit) -> str:
    """Return a unit's name as it stands in the mark."""
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in unit.name)


def mark_of(unit: Unit) -> str:
    """Return the comment that identifies the files of one of our releases."""
    lines = sorted(f"{item.sha256} {item.name}" for item in unit.items)
    digest = hashlib.sha256("\n".join([unit.name, *lines]).encode()).hexdigest()
    return f"<!-- fatwheel {slug_of(unit)} sha256:{digest} -->"


def is_announced(release: GitRelease, unit: Unit) -> bool:
    """Whether a published release needs no update of its notes for the unit; full notes take no more text."""
    body = release.body or ""
    return not makes_stable(release, unit) and (mark_of(unit) in body or len(body) + len(mark_of(unit)) + 4 >= FULL)


def makes_stable(release: GitRelease, unit: Unit) -> bool:
    """Whether a unit makes a prerelease stable; a retracted release stays as it is."""
    return release.prerelease and not is_early(unit) and notice.notice_of(release.body or "") is None


def is_early(unit: Unit) -> bool:
    """Whether a unit is a candidate or a nightly."""
    return unit.edition.channel is not Channel.STABLE


def make_latest(unit: Unit) -> str:
    """Return GitHub's `make_latest`: with `legacy` the higher version wins, so a fix of an old line does not."""
    return "false" if is_early(unit) else "legacy"


def exists(call: Any) -> bool:  # noqa: ANN401 - its result is not used
    """Call `call`; return False on HTTP 404, else True."""
    return found_or_none(lambda: (call(),)) is not None  # a tuple: the call may return None


def commit_of_tag(repository: Repository, tag: str) -> str:
    """Return the commit of a tag, or "" if the tag does not exist."""
    try:
        target = repository.get_git_ref(f"tags/{tag}").object
        if target.type == "tag":
            target = repository.get_git_tag(target.sha).object  # an annotated tag is an object of its own
    except UnknownObjectException:
        return ""
    return target.sha
