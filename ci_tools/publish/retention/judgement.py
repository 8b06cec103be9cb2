"""Decides which releases stay and which are removed, each with the reason. No I/O.

Only what Fatwheel published is ever removed, and of that no draft and no stable release: others pin them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from typing import NamedTuple

from ci_tools.errors import Problem, RejectedInput, nearest
from ci_tools.publish.retention.tags import Naming, ReleaseTag, Retention, read_tag

GIGABYTE = 10**9
MISNAMED = "no template gives this tag"


class ReleaseFate(str, Enum):  # its values are printed, and stand in JSON
    """Whether a release stays."""

    KEEP = "keep"
    REMOVE = "remove"


class Asset(NamedTuple):
    """A file of a release."""

    name: str
    size: int  # bytes
    url: str = ""  # of its download


class Stored(NamedTuple):
    """A release of a repository, as GitHub lists it."""

    number: int
    tag: str
    is_draft: bool
    is_ours: bool  # whether Fatwheel published it
    mark: str  # of its files, changed by every upload and every edit of its notes
    assets: tuple[Asset, ...]
    page: str = ""  # its address

    @property
    def size(self) -> int:
        """The bytes of all its assets."""
        return sum(asset.size for asset in self.assets)


class Judged(NamedTuple):
    """A release, what its tag says, whether it stays, and why."""

    release: Stored
    tag: ReleaseTag | None  # None: of no template
    fate: ReleaseFate
    reason: str
    is_superseded: bool = False  # whether it may go where the quota is exceeded

    def remove(self, reason: str) -> Judged:
        """Return the same release, to be removed for that reason."""
        return self._replace(fate=ReleaseFate.REMOVE, reason=reason)


class QuotaExcess(NamedTuple):
    """A project whose remaining releases exceed its quota."""

    project: str
    size: int
    assets: int
    retention: Retention


def judge(releases: Sequence[Stored], namings: Sequence[Naming], *, misnamed: bool = False) -> list[Judged]:
    """Return every release with its fate, in the given order; `misnamed` removes those whose tags no template gives."""
    tags = {release.number: read_tag(release.tag, namings) for release in releases}
    # A release of others does not supersede our releases.
    ours = [tag for one in releases if one.is_ours and not one.is_draft and (tag := tags[one.number])]
    retentions = {naming.package: naming.retention for naming in reversed(namings)}
    judged = [_judge_one(one, tags[one.number], ours, retentions, misnamed=misnamed) for one in releases]
    for project, retention in retentions.items():
        judged = _fit_quota(judged, project, retention)
    return judged


def _judge_one(
    release: Stored,
    tag: ReleaseTag | None,
    ours: Sequence[ReleaseTag],
    retentions: Mapping[str, Retention],
    *,
    misnamed: bool,
) -> Judged:
    if release.is_draft:
        return Judged(release, tag, ReleaseFate.KEEP, "a draft: somebody may be publishing it")
    if not release.is_ours:
        what = "" if tag else f", and {MISNAMED}"
        return Judged(release, tag, ReleaseFate.KEEP, f"Fatwheel did not publish it{what}")
    patterns = retentions[tag.project].keep if tag else [text for one in retentions.values() for text in one.keep]
    if pattern := next((text for text in patterns if fnmatchcase(release.tag, text)), ""):
        return Judged(release, tag, ReleaseFate.KEEP, f'kept by "{pattern}"')
    if tag is None:
        return Judged(release, tag, ReleaseFate.REMOVE if misnamed else ReleaseFate.KEEP, MISNAMED)
    if tag.is_nightly:
        return _judge_nightly(release, tag, ours, retentions[tag.project].nightlies)
    return _judge_version(release, tag, ours)


def _judge_version(release: Stored, tag: ReleaseTag, ours: Sequence[ReleaseTag]) -> Judged:
    """Return the fate of a release that is no nightly: it stays, unless its project's quota is exceeded."""
    if tag.candidate and tag._replace(candidate=0) in ours:
        return Judged(release, tag, ReleaseFate.KEEP, "a candidate of a release that is published", is_superseded=True)
    newest = max(one.rebuild for one in ours if one._replace(rebuild=0) == tag._replace(rebuild=0))
    if newest > tag.rebuild:
        return Judged(release, tag, ReleaseFate.KEEP, f"rebuilt since, as -r{newest}", is_superseded=True)
    return Judged(release, tag, ReleaseFate.KEEP, "a candidate" if tag.candidate else "a stable release")


def _judge_nightly(release: Stored, tag: ReleaseTag, ours: Sequence[ReleaseTag], most: int) -> Judged:
    same = [one for one in ours if one.is_nightly and (one.project, one.series) == (tag.project, tag.series)]
    newer = sum((one.version, one.rebuild) > (tag.version, tag.rebuild) for one in same)
    word = "nightly is" if newer == 1 else "nightlies are"
    reason = f"{newer} {word} newer" if newer else "the newest nightly"
    fate = ReleaseFate.REMOVE if newer >= most else ReleaseFate.KEEP
    if fate is ReleaseFate.REMOVE:
        reason += f", {most} {'is' if most == 1 else 'are'} kept"
    return Judged(release, tag, fate, reason, is_superseded=newer > 0)


def _fit_quota(judged: Sequence[Judged], project: str, retention: Retention) -> list[Judged]:
    """Remove superseded releases of a project, the oldest nightlies first, as long as its quota is exceeded."""
    found = list(judged)
    # Nightlies are needed least, then candidates; of each, the older ones. False sorts first.
    spare = [
        ((not one.tag.is_nightly, not one.tag.candidate, one.tag.version, one.tag.candidate), number)
        for number, one in enumerate(found)
        if one.is_superseded and one.fate is ReleaseFate.KEEP and one.tag and one.tag.project == project
    ]
    for _, number in sorted(spare):
        exceeded = next(_excess(found, project, retention), None)
        if exceeded is None:
            break
        found[number] = found[number].remove(f"{found[number].reason}, and {describe(exceeded)}")
    return found


def list_excess(judged: Sequence[Judged], namings: Sequence[Naming]) -> list[QuotaExcess]:
    """Return the projects whose quota is exceeded even by the releases that stay."""
    retentions = {naming.package: naming.retention for naming in reversed(namings)}
    return [one for project, retention in retentions.items() for one in _excess(judged, project, retention)]


def _excess(judged: Sequence[Judged], project: str, retention: Retention) -> Iterator[QuotaExcess]:
    """Yield the excess of a project's releases, if there is any."""
    stay = [one.release for one in judged if one.fate is ReleaseFate.KEEP and one.tag and one.tag.project == project]
    stay = [release for release in stay if release.is_ours]
    size, assets = sum(release.size for release in stay), sum(len(release.assets) for release in stay)
    if size > retention.gigabytes * GIGABYTE or assets > retention.assets:
        yield QuotaExcess(project, size, assets, retention)


def describe(excess: QuotaExcess) -> str:
    """Return in words which quota is exceeded."""
    parts = []
    if excess.size > excess.retention.gigabytes * GIGABYTE:
        shown = f"{excess.size / GIGABYTE:.1f} GB"
        parts.append(f"{excess.project} has {shown}, its quota is {excess.retention.gigabytes:g} GB")
    if excess.assets > excess.retention.assets:
        parts.append(f"{excess.project} has {excess.assets:,} assets, its quota is {excess.retention.assets:,}")
    return "; ".join(parts)


def refuse_idle_patterns(releases: Sequence[Stored], namings: Sequence[Naming]) -> None:
    """Raise RejectedInput for patterns of a keep-list that match no tag: with a typing error, they keep nothing."""
    tags = [release.tag for release in releases]
    patterns = dict.fromkeys(text for one in namings for text in one.retention.keep)
    idle = [text for text in patterns if not any(fnmatchcase(tag, text) for tag in tags)]
    if idle:
        raise RejectedInput(
            [Problem("", f'keep: "{text}" is the tag of no release, {nearest(text, tags)}') for text in idle],
            hint="correct it or take it out: nothing is removed before",
        )
