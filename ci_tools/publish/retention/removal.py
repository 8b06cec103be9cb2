"""Reads the releases of a repository from GitHub, and removes those that are judged superseded, one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from github.GithubException import UnknownObjectException

from ci_tools.errors import InputError
from ci_tools.github.client import Hub, printable
from ci_tools.index.of_releases import read_listing
from ci_tools.publish.retention.judgement import Asset, Judged, ReleaseFate, Stored
from ci_tools.publish.targets.github_release.assets import read_assets, read_list
from ci_tools.publish.targets.github_release.releases import MARK

if TYPE_CHECKING:
    from github.GitRelease import GitRelease
    from github.Repository import Repository


LISTING = ("fatwheel-", ".json")  # the name of the list of a unit's files
METADATA = ".metadata"  # of the METADATA beside a wheel (PEP 658)


class Removed(NamedTuple):
    """A release, and the result of its removal."""

    tag: str
    outcome: str  # removed, gone, kept
    reason: str


def read_releases(hub: Hub) -> tuple[Stored, ...]:
    """Return every release of a repository, newest first; drafts are there only for a token that may write."""
    with hub.opened(anonymous=True) as repository:
        found = hub.ask(lambda _: list(repository.get_releases()))
    return tuple(map(_stored, found))


def _stored(release: GitRelease) -> Stored:
    names = [asset.name for asset in release.assets]
    is_ours = MARK.search(release.body or "") is not None or any(map(_is_listing, names))  # notes may be edited
    assets = tuple(Asset(asset.name, asset.size, asset.browser_download_url) for asset in release.assets)
    tag, mark = printable(release.tag_name), _mark(release)
    return Stored(release.id, tag, release.draft, is_ours, mark, assets, release.html_url)


def _is_listing(name: str) -> bool:
    return name.startswith(LISTING[0]) and name.endswith(LISTING[1])


def _mark(release: GitRelease) -> str:
    """Return a hash that changes with a release's tag, notes, state and files."""
    assets = sorted(f"{asset.id} {asset.name} {asset.size}" for asset in release.assets)
    # A replaced asset has another id.
    lines = [release.tag_name, release.name or "", release.body or "", str(release.draft), *assets]
    return hashlib.sha256("\0".join(lines).encode()).hexdigest()


def spare_guests(hub: Hub, judged: Sequence[Judged]) -> list[Judged]:
    """Keep the releases that would be removed but hold files that Fatwheel did not put there."""
    with hub.opened(anonymous=True) as repository:
        return [_spare(hub, repository, one) if one.fate is ReleaseFate.REMOVE else one for one in judged]


def _spare(hub: Hub, repository: Repository, judged: Judged) -> Judged:
    try:
        release = hub.ask(lambda _: repository.get_release(judged.release.number))
    except InputError:  # gone meanwhile: its removal says so
        return judged
    guests = _guests(hub, release)
    what = f"it holds {printable(guests[0])}, which Fatwheel did not put there" if guests else ""
    return judged._replace(fate=ReleaseFate.KEEP, reason=what) if guests else judged


def _guests(hub: Hub, release: GitRelease) -> tuple[str, ...]:
    """Return the assets that none of a release's lists names."""
    there = read_assets(hub, release)
    lists = {name for name in there if _is_listing(name)}
    known = set(lists)
    for name in lists:
        with suppress(ValueError):  # a damaged list: all files count as guests, so that the release is kept
            listing = read_listing(read_list(hub, there[name]), "")
            known |= {*listing.aliases, *(file.name for file in listing.files)}
    return tuple(sorted(name for name in there if name.removesuffix(METADATA) not in known))


def remove(hub: Hub, judged: Sequence[Judged]) -> Iterator[Removed]:
    """Remove the releases that are judged so, and yield the result for each; their git tags stay.

    Each is read again before: one that was changed since, or is gone, is left alone. Raises InputError without a
    token, and what GitHub refuses.
    """
    with hub.opened() as repository:
        for one in judged:
            if one.fate is not ReleaseFate.REMOVE:
                continue

            def once(again: bool, seen: Stored = one.release) -> tuple[str, str]:  # noqa: FBT001 - Hub.ask calls it so
                try:
                    release = repository.get_release(seen.number)
                    if _mark(release) != seen.mark:
                        return "kept", "it was changed since it was listed"
                    release.delete_release()
                except UnknownObjectException:
                    # `again`: the answer to the first try was lost.
                    return ("removed", "") if again else ("gone", "somebody else has removed it")
                return "removed", ""

            outcome, why = hub.ask(once)
            yield Removed(one.release.tag, outcome, why or one.reason)
