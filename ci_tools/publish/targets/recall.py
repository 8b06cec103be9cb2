"""Retracts a release on GitHub: marks its title and notes, and makes it a prerelease, so it is not the latest.

The `prerelease` flag is needed: if a release is only not the latest, GitHub may make it the latest again when another
one is deleted. Notes, title and flags of an immutable release may be changed (github/docs#45718).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.version import Version

from ci_tools.errors import InputError
from ci_tools.github.client import Busy, Hub, found_or_none, printable
from ci_tools.index.file_names import project_and_version
from ci_tools.model.versions import parse_version
from ci_tools.publish.notes import MAX_CHARACTERS
from ci_tools.publish.targets.notice import TITLE, Notice, add_notice, notice_of, remove_notice, title_of

if TYPE_CHECKING:
    from github.GitRelease import GitRelease
    from github.Repository import Repository


class RecalledRelease(NamedTuple):
    """A published release with files of a version."""

    number: int
    tag: str
    page: str  # its address


def releases_of(hub: Hub, project: str, version: Version) -> tuple[RecalledRelease, ...]:
    """Return the published releases with files of a version: the stable one, and those of its candidates.

    Raises InputError if a release cannot be marked: the repository is archived, the token may not change it, or the
    release also holds files of another version or project, which its mark would include.
    """
    with hub.opened() as repository:
        _refuse_unwritable(hub, repository)
        releases = hub.ask(lambda _: list(repository.get_releases()))
        held = [(one, set(_versions(one))) for one in releases if not one.draft]
    found = [(release, of) for release, of in held if (project, version) in of]
    for release, of in found:
        others = sorted(f"{name} {other}" for name, other in of - {(project, version)})
        if others:
            where = f"{printable(release.tag_name)} of {hub.repository}"
            msg = f"{where} also has files of {others[0]}, and a release is marked as a whole"
            raise InputError(msg, hint=f"say it in that release's notes by hand: {release.html_url}")
    return tuple(RecalledRelease(release.id, printable(release.tag_name), release.html_url) for release, _ in found)


def _refuse_unwritable(hub: Hub, repository: Repository) -> None:
    if repository.archived:
        msg = f"{hub.repository} is archived, and its releases cannot be changed"
        raise InputError(msg, hint=f"gh repo unarchive {hub.repository}")
    permissions = repository.permissions
    if permissions is not None and permissions.push is False:
        msg = f"this token may not change the releases of {hub.repository}"
        raise InputError(msg, hint=f"ask an owner of {hub.repository} for the role Write")


def _versions(release: GitRelease) -> Iterator[tuple[str, Version]]:
    """Yield the projects and public versions of a release's files, including files that others added."""
    for asset in release.assets:
        try:
            project, version = project_and_version(asset.name)
        except ValueError:
            continue
        yield project, parse_version(version.public)


def retract(hub: Hub, number: int, reason: str) -> bool:
    """Mark a release as retracted, and return whether that changed anything; raise InputError if its notes are full."""
    with hub.opened() as repository:

        def once(_: bool) -> bool:  # noqa: FBT001 - Hub.ask calls it so
            release = repository.get_release(number)
            body, now = release.body or "", notice_of(release.body or "")
            before = now or Notice("", release.name or "", release.prerelease, _latest(repository) == number)
            wanted = add_notice(remove_notice(body), before._replace(reason=reason))
            title = title_of(release.name or release.tag_name)  # GitHub shows the tag where there is no title
            is_done = (body, release.name, release.prerelease) == (wanted, title, True)
            if not is_done:
                _refuse_full(release, wanted)
                release.update_release(title, wanted, prerelease=True, make_latest="false")
            return not is_done

        changed = hub.ask(once)
        hub.ask(lambda _: _refuse_latest(repository, number))  # GitHub decides it a moment later
    return changed


def _refuse_full(release: GitRelease, notes: str) -> None:
    if len(notes) > MAX_CHARACTERS:
        notes_of = f"the notes of {printable(release.tag_name)}"
        msg = f"{notes_of} would have {len(notes):,} characters, GitHub accepts {MAX_CHARACTERS:,}"
        raise InputError(msg, hint=f"shorten them by {len(notes) - MAX_CHARACTERS:,}: {release.html_url}")


def _latest(repository: Repository) -> int:
    """Return the ID of the latest release, 0 if there is none."""
    latest = found_or_none(repository.get_latest_release)
    return latest.id if latest else 0


def _refuse_latest(repository: Repository, number: int) -> None:
    if _latest(repository) == number:
        raise Busy("GitHub still calls the retracted release the latest")


def restore(hub: Hub, number: int) -> bool:
    """Remove the mark of a release, and return whether it had one.

    Notes, title and flags are restored; changes that users made meanwhile are kept.
    """
    with hub.opened() as repository:

        def once(_: bool) -> bool:  # noqa: FBT001 - Hub.ask calls it so
            release = repository.get_release(number)
            before = notice_of(release.body or "")
            if before is None:
                return False
            flags: dict[str, Any] = {"prerelease": before.prerelease}
            if not before.prerelease:  # `legacy`: the highest version wins, which may be a newer release by now
                flags["make_latest"] = "legacy" if before.latest else "false"
            title = release.name or ""
            title = before.title if title == title_of(before.title or release.tag_name) else title.removeprefix(TITLE)
            release.update_release(title, remove_notice(release.body or ""), **flags)
            return True

        return hub.ask(once)
