"""GitHub Releases: files are uploaded to an invisible draft, checked by hash, and published in one step.

A comment in a draft's notes, with the digest of the unit's files, identifies it as ours. A draft with other files is
not touched before ours is published: GitHub publishes only one release of a tag, and the other publisher gets an error.
If the release of the tag is published already (the core's, or one that a person made by hand), files are uploaded to it
directly during activation, each visible once it is complete.
"""

from __future__ import annotations

import functools
import hashlib
import io
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple, cast
from urllib.parse import quote

from github.GithubException import GithubException, UnknownObjectException
from packaging.utils import canonicalize_name

from ci_tools.errors import FatwheelError, InputError, MachineError, Problem, Rejected, RejectedInput, nearest
from ci_tools.github.client import (
    PATIENCE,
    PAUSE,
    Busy,
    Failed,
    Hub,
    printable,
)
from ci_tools.machine.storage import CHUNK
from ci_tools.model.edition import candidate_of
from ci_tools.model.pep440 import parse_version
from ci_tools.model.request import Channel
from ci_tools.publish.index import of_releases
from ci_tools.publish.index.of_releases import (
    Facts,
    Listing,
    listing,
    listing_name,
    read_listing,
)
from ci_tools.publish.index.pages import project_and_version
from ci_tools.publish.index.wheel_index import METADATA_SUFFIX, metadata_of
from ci_tools.publish.notes import MOST_CHARACTERS, notes
from ci_tools.publish.targets import notice
from ci_tools.publish.units import CORE, Change, Published

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset
    from github.Repository import Repository
    from typing_extensions import Buffer

    from ci_tools.machine.context import Outside, Step
    from ci_tools.publish.index.pages import IndexedFile
    from ci_tools.publish.units import Item, Unit

__all__ = ["GitHubTarget"]

MOST_ASSETS = 1000
MOST_BYTES = 2 << 30  # an asset must be smaller
FULL = MOST_CHARACTERS - notice.MOST_CHARACTERS  # characters of notes, with room for the notice of a retraction
KEPT_NAME = re.compile(r"[A-Za-z0-9_-]([A-Za-z0-9_.+@-]*[A-Za-z0-9_+@-])?")  # GitHub replaces other characters by dots
MARK = re.compile(r"<!-- fatwheel ([A-Za-z0-9-]+) sha256:([0-9a-f]{64}) -->")
NO_TAG = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-./]|[./]$|^@$")  # git check-ref-format
COMMIT = re.compile(r"[0-9a-f]{40}")
LIST = re.compile(r"fatwheel-[A-Za-z0-9-]+\.json")
FIRST = "publish the core first: its files make the release"
BINARY = "application/octet-stream"
WITHOUT_METADATA = "there is no .metadata beside the wheels, and installers fetch a wheel to read what it requires"


class Sent(NamedTuple):
    """One file that becomes an asset: the bytes in `content`, or if that is None, the file at `path`."""

    name: str
    sha256: str
    size: int
    path: Path | None
    content: bytes | None = None

    @property
    def is_list(self) -> bool:
        """Whether it is the list of the unit's files."""
        return self.content is not None and not self.name.endswith(METADATA_SUFFIX)


class Seen(NamedTuple):
    """The releases and drafts that exist for a unit's tag."""

    published: GitRelease | None
    draft: GitRelease | None  # ours, with exactly these files
    spare: tuple[GitRelease, ...]  # our superfluous drafts
    other: tuple[GitRelease, ...]  # our drafts with other files, useless once a release is published


@dataclass(frozen=True, slots=True)
class GitHubTarget:
    """The releases of one repository; `indexes` are the addresses to install from, for the notes."""

    order: ClassVar[int] = 2
    stages: ClassVar[bool] = True

    repository: str  # OWNER/REPO
    outside: Outside = field(repr=False)
    base_url: str = field(default="", kw_only=True)
    indexes: tuple[str, ...] = field(default=(), kw_only=True)
    pause: float = field(default=PAUSE, kw_only=True)  # seconds between two writes, and before the second try
    patience: float = field(default=PATIENCE, kw_only=True)  # seconds that one request may wait in total

    @property
    def address(self) -> str:
        """The target in the user's notation."""
        return f"github:{self.repository}"

    @property
    def hub(self) -> Hub:
        """The client of the repository."""
        return Hub(self.repository, self.outside, self.base_url, self.pause, self.patience)

    # -- the four steps

    def check(self, unit: Unit) -> Sequence[Change]:
        """Return what publishing would change here; write nothing.

        Raises InputError if GitHub's rules forbid the unit, if its release holds one of the files with other bytes or
        accepts no more files, or if its tag is at another commit; MachineError if GitHub does not answer.
        """
        _refuse_by_rules(unit)
        with self.hub.opened() as repository:
            seen = self._find_releases(repository, unit)
            if unit.added and not seen.published:
                raise self._absent(unit)
            files, there = self._refuse_change(unit, seen.published)
            self._refuse_commit(repository, unit, seen.published)
            base = f"{repository.html_url}/releases"
        if len(files) < len(_files(unit)):
            self.outside.reporter.say(f"{unit.tag} would have more than {MOST_ASSETS:,} files: {WITHOUT_METADATA}")
        changes = [
            Change("keep" if sent.name in there else "add", f"{base}/download/{quote(unit.tag)}/{quote(sent.name)}")
            for sent in files
        ]
        is_told = seen.published and _is_told(seen.published, unit)
        page = Change("keep" if is_told else "update" if seen.published else "add", f"{base}/tag/{quote(unit.tag)}")
        gone = [Change("remove", one.html_url, "a draft that was never finished") for one in (*seen.spare, *seen.other)]
        return [page._replace(detail=unit.title), *changes, *gone]

    def holds(self, unit: Unit) -> frozenset[str]:
        """Return the wheels and sdists of the published release of the unit's tag."""
        with self.hub.opened(anonymous=True) as repository:
            published = self._find_releases(repository, unit).published
            there = self._assets(published) if published else {}
        return frozenset(name for name in there if name.endswith((".whl", ".tar.gz")))

    def foresee(self, unit: Unit) -> None:
        """Raise the errors of `check`, without the list of the unit's files, which is not complete yet."""
        _refuse_by_rules(unit)
        with self.hub.opened() as repository:
            published = self._find_releases(repository, unit).published
            if published is None:
                self._refuse_commit(repository, unit, published)
                return
            there = {name: asset for name, asset in self._assets(published).items() if asset.state == "uploaded"}
            self._refuse_others(unit, there, [sent for sent in _files(unit) if not sent.is_list])

    def stage(self, unit: Unit) -> None:
        """Upload every file to a draft; do nothing if the release is already published: it cannot hide files.

        Raises InputError, Rejected or MachineError as `check` does.
        """
        _refuse_by_rules(unit)
        with self.hub.opened() as repository:
            seen = self._find_releases(repository, unit)
            commit = self._refuse_commit(repository, unit, seen.published)
            if seen.published or unit.name != CORE:
                self._refuse_change(unit, seen.published)
                return
            draft = seen.draft or self.hub.ask(lambda _: self._new_draft(repository, unit, commit))
            self._send(draft, unit)

    def verify(self, unit: Unit) -> None:
        """Read back the hashes of all assets; raise Rejected if one is not the unit's, or a draft lacks a file."""
        with self.hub.opened() as repository:
            seen = self._find_releases(repository, unit)
            release = seen.published or seen.draft
            if release is None and unit.name == CORE:
                raise self._absent(unit)
            if release is not None:
                self._verify(release, unit, whole=seen.published is None)

    def switch(self, unit: Unit) -> Sequence[Published]:
        """Publish the unit, and return its files here; files that are already public stay unchanged."""
        with self.hub.opened() as repository:
            seen = self._find_releases(repository, unit)
            new = self._publish(seen.draft, unit) if seen.draft and not seen.published else None
            release = new or self._find_releases(repository, unit).published
            if release is None:
                raise self._absent(unit)
            added = frozenset(item.name for item in unit.items) if new else self._complete(release, unit)
            self._verify(release, unit, whole=True)
            seen = self._find_releases(repository, unit)
            self._remove([*seen.spare, *seen.other])
            there = self._assets(release)
        items = sorted(unit.items, key=lambda item: item.name)
        return [Published(item.name, there[item.name].browser_download_url, item.name in added) for item in items]

    def _absent(self, unit: Unit) -> FatwheelError:
        """Return the error for a missing release that was staged before."""
        if unit.name == CORE:
            msg = f"the draft of {unit.tag} is gone from {self.repository}"
            return MachineError(msg, hint="give the same command again, it makes a new one")
        msg = f"{unit.tag} of {self.repository} is not published yet, and {unit.name} is added to it"
        hint = "publish the release itself first, without --torch" if unit.added else FIRST
        return InputError(msg, hint=hint)

    # -- the index over release assets

    def listings(self, project: str) -> dict[str, tuple[Listing, ...]]:
        """Return a project's entries in the lists of published releases, by an index's channels, newest first.

        Their files stay on GitHub, and those of a retracted release are yanked. A file that was deleted from its
        release is left out. Raises InputError if no release has a file of the project, MachineError if a list is
        damaged.
        """
        with self.hub.opened() as repository:
            releases = self.hub.ask(lambda _: list(repository.get_releases()))
            found = [one for release in releases if not release.draft for one in self._listings(release)]
        of_project = [one for one in found if one[1].project == canonicalize_name(project) and one[1].files]
        if not of_project:
            known = {listing.project for _, listing in found}
            there = nearest(project, known) if known else "and of no other project either"
            msg = f'no release of {self.repository} holds a file of a project "{printable(project)}", {there}'
            raise InputError(msg, hint="an index is made of the releases that `fatwheel publish` made")
        channels = dict.fromkeys(channel for channel, _ in of_project)
        return {channel: tuple(one for where, one in of_project if where == channel) for channel in channels}

    def _listings(self, release: GitRelease) -> Iterator[tuple[str, Listing]]:
        """Yield a release's lists, each with its channel, and report the wheels that no list names."""
        if not any(asset.name.startswith("fatwheel-") for asset in release.assets):
            return
        there = {name: asset for name, asset in self._assets(release).items() if asset.state == "uploaded"}
        listings = [self._read(release, there[name]) for name in sorted(filter(LIST.fullmatch, there))]
        named = {file.name for one in listings for file in one.files}
        strangers = sorted(name for name in there if name.endswith(".whl") and name not in named)
        if strangers:
            what = f"{len(strangers)} wheels of {printable(release.tag_name)} that no list of ours names"
            self.outside.reporter.say(f"left out: {what}, {strangers[0]} for one")
        retracted = notice.notice_of(release.body or "")
        for one in listings:
            files = (self._link_file(file, there, release) for file in one.files if file.name in there)
            shown = tuple(file._replace(yanked=retracted.reason) if retracted else file for file in files)
            yield _channel(release, one), one._replace(files=shown)

    def _read(self, release: GitRelease, asset: GitReleaseAsset) -> Listing:
        """Return the content of a list; raise MachineError if it is damaged."""
        try:
            if asset.size > of_releases.MOST_BYTES:
                msg = f"it has {asset.size:,} bytes"
                raise ValueError(msg)  # noqa: TRY301 - every defect gives the same error
            content = self.hub.ask(lambda _: b"".join(_download_asset(asset)))
            return read_listing(content, release.published_at.strftime("%Y-%m-%dT%H:%M:%SZ"))
        except ValueError as error:
            where = f"{asset.name} of {printable(release.tag_name)} in {self.repository}"
            msg = f"{where} is damaged: {printable(str(error))}"
            raise MachineError(msg, hint="delete it there, and publish that version again") from None

    def _link_file(self, file: IndexedFile, there: Mapping[str, GitReleaseAsset], release: GitRelease) -> IndexedFile:
        """Return a file with its address; with METADATA only if exactly its bytes are in the release too."""
        beside = there.get(f"{file.name}{METADATA_SUFFIX}")
        digest = "" if beside is None else beside.digest or f"sha256:{self.hub.ask(lambda _: _hash_asset(beside))}"
        return file._replace(
            at=there[file.name].browser_download_url,
            candidate=candidate_of(release.tag_name, project_and_version(file.name)[1]),
            metadata_sha256=file.metadata_sha256 if digest == f"sha256:{file.metadata_sha256}" else "",
        )

    # -- the state on GitHub

    def _find_releases(self, repository: Repository, unit: Unit) -> Seen:
        """Return the releases of the unit's tag."""
        releases = self.hub.ask(lambda _: list(repository.get_releases()))
        of_tag = sorted((one for one in releases if one.tag_name == unit.tag), key=lambda one: one.id)
        published = next((one for one in of_tag if not one.draft), None)
        drafts = [
            one for one in of_tag if one.draft and (mark := MARK.search(one.body or "")) and mark[1] == _slug(unit)
        ]
        own = [one for one in drafts if _mark(unit) in one.body]
        return Seen(
            published,
            draft=own[0] if own and not published else None,
            spare=tuple(own if published else own[1:]),
            other=tuple(one for one in drafts if one not in own),
        )

    def _assets(self, release: GitRelease) -> dict[str, GitReleaseAsset]:
        """Return a release's assets by name; raise MachineError if the release no longer exists."""
        return {asset.name: asset for asset in self.hub.ask(lambda _: _list_assets(release))}

    def _refuse_change(
        self, unit: Unit, published: GitRelease | None
    ) -> tuple[Sequence[Sent], dict[str, GitReleaseAsset]]:
        """Return the files for a unit's release, and the complete assets of a published release.

        Raises InputError if an asset has other bytes than the unit's file, or if the release cannot take the missing
        files.
        """
        if published is None:
            return _select_files(unit, ()), {}
        assets = self._assets(published)
        files = _select_files(unit, assets)
        there = {name: asset for name, asset in assets.items() if asset.state == "uploaded"}
        self._refuse_others(unit, there, files)
        _refuse_more(unit, published, there, [sent for sent in files if sent.name not in there])
        return files, there

    def _refuse_others(self, unit: Unit, there: Mapping[str, GitReleaseAsset], files: Iterable[Sent]) -> None:
        """Raise RejectedInput if a published release holds one of the files with other bytes."""
        differences = [self._difference(there.get(sent.name), sent, whole=False) for sent in files]
        if problems := [Problem("", what) for what in differences if what]:
            problems = [Problem(unit.tag, f"is published in {self.repository} with other bytes"), *problems]
            raise RejectedInput(problems, hint="a published file never changes: raise the version")

    def _refuse_commit(self, repository: Repository, unit: Unit, published: GitRelease | None) -> str:
        """Return the commit to tag, or "" if the tag exists; raise InputError if the tag points elsewhere."""
        if (published and not unit.added) or not COMMIT.fullmatch(unit.commit):
            return ""
        tagged = self.hub.ask(lambda _: _commit_of_tag(repository, unit.tag))
        known = self.hub.ask(lambda _: _exists(lambda: repository.get_git_commit(unit.commit)))
        if tagged and known and tagged != unit.commit:
            msg = f"the tag {unit.tag} of {self.repository} is at {tagged[:12]}, these files are of {unit.commit[:12]}"
            raise InputError(msg, hint="build what is tagged, or raise the version")
        if not tagged and not known:
            msg = f"{self.repository} has neither the tag {unit.tag} nor the commit {unit.commit[:12]}"
            raise InputError(msg, hint=f"push the commit, or a tag {unit.tag} that says where the release belongs")
        return "" if tagged or published else unit.commit

    # -- changes on GitHub

    def _new_draft(self, repository: Repository, unit: Unit, commit: str) -> GitRelease:
        """Return our draft, creating it if needed; if two were created at once, the older one."""
        seen = self._find_releases(repository, unit)
        if not seen.draft and not seen.published:
            target: dict[str, Any] = {"target_commitish": commit} if commit else {}
            repository.create_git_release(
                unit.tag,
                unit.title or unit.tag,
                self._body(repository, unit),
                draft=True,
                prerelease=_is_early(unit),
                **target,
            )
            seen = self._find_releases(repository, unit)
        if seen.published:
            msg = f"{unit.tag} of {self.repository} was published by somebody else meanwhile"
            raise MachineError(msg, hint="the same command says whether it holds these very files")
        if not seen.draft:
            msg = "GitHub does not list the new draft yet"
            raise Busy(msg)
        self._remove(seen.spare)
        return seen.draft

    def _body(self, repository: Repository, unit: Unit) -> str:
        """Return the notes of a release, with the comment that identifies it as ours."""
        links = f"{repository.html_url}/releases/expanded_assets/{quote(unit.tag)}"
        room = FULL - len(_mark(unit)) - 2
        return f"{notes(unit, self.indexes, links=links, most=room)}\n{_mark(unit)}\n"

    def _send(self, release: GitRelease, unit: Unit) -> frozenset[str]:
        """Upload the files that a release lacks, and return their names."""
        there = self._assets(release)
        waiting = [sent for sent in _select_files(unit, there) if not self._has(release, there.get(sent.name), sent)]
        if not waiting:
            return frozenset()
        total = sum(sent.size for sent in waiting)
        title = f"uploading {len(waiting)} files to {self.address}"
        with self.outside.reporter.step(title) as step:
            done = 0
            for sent in waiting:
                self._send_one(release, sent, there.get(sent.name), _Progress(step, done, total))
                done += sent.size
        return frozenset(sent.name for sent in waiting)

    def _has(self, release: GitRelease, asset: GitReleaseAsset | None, sent: Sent) -> bool:
        """Whether a release has a file; a published list is kept if it names the same files."""
        if _is_whole(asset, sent) or asset is None:
            return _is_whole(asset, sent)
        return sent.is_list and not release.draft and not self._difference(asset, sent, whole=True)

    def _send_one(self, release: GitRelease, sent: Sent, old: GitReleaseAsset | None, progress: _Progress) -> None:
        """Upload one file, after deleting an asset of its name that is incomplete or has other bytes."""
        other = False  # whether another publisher is uploading it

        def once(again: bool) -> None:  # noqa: FBT001 - Hub.ask calls it so
            nonlocal other
            # An incomplete asset may be complete and published by now: look again before deleting it.
            present = self._assets(release).get(sent.name) if again or old else None
            if self._has(release, present, sent):
                return
            if present and other and present.state != "uploaded":
                raise Busy(_describe_contention(sent))
            if present:
                _exists(present.delete_asset)
            try:
                with _reading(sent, progress) as content:
                    stream = cast("BinaryIO", content)
                    asset = release.upload_asset_from_memory(stream, sent.size, sent.name, BINARY, label=sent.name)
            except GithubException as error:
                other = _has(error, "already_exists", "name")
                raise _meaning(error, sent) from None
            self._refuse_other(asset, sent, content.digest.hexdigest())

        self.hub.ask(once)

    def _refuse_other(self, asset: GitReleaseAsset, sent: Sent, sha256: str) -> None:
        """Delete an asset that is not the file to send, and raise an error that says why."""
        is_right = asset.digest in {None, f"sha256:{sent.sha256}"}
        if asset.name == sent.name and sha256 == sent.sha256 and is_right:
            return
        _exists(asset.delete_asset)
        if asset.name != sent.name:
            msg = f"GitHub calls {sent.name} {printable(asset.name)}, and by that name no installer takes it"
            raise InputError(msg, hint="publish this version to an index of your own")
        if sha256 != sent.sha256:
            raise _change_error(sent)
        msg = f"GitHub stored other bytes of {sent.name} than it was sent"
        raise Failed(msg)

    def _publish(self, draft: GitRelease, unit: Unit) -> GitRelease | None:
        """Publish our draft and return it, or None if another release of the tag was published first."""
        self._verify(draft, unit, whole=True)

        def once(_: bool) -> GitRelease | None:  # noqa: FBT001 - Hub.ask calls it so
            try:
                return draft.update_release(
                    draft.name, draft.body, draft=False, prerelease=_is_early(unit), make_latest=_latest(unit)
                )
            except UnknownObjectException:
                return None
            except GithubException as error:
                if _has(error, "already_exists", "tag_name"):
                    return None
                raise

        return self.hub.ask(once)

    def _complete(self, release: GitRelease, unit: Unit) -> frozenset[str]:
        """Upload the unit's files that a published release lacks, and add the unit to its notes."""
        self._refuse_change(unit, release)
        added = self._send(release, unit)
        if not _is_told(release, unit):
            self.hub.ask(lambda _: self._tell(release, unit))
        return added

    def _tell(self, release: GitRelease, unit: Unit) -> None:
        """Add a unit to the notes of a published release; if the unit is stable, make the release stable too."""
        mark, body = _mark(unit), release.body or ""
        room = FULL - len(body) - len(mark) - 4
        more = f"{body}\n\n{notes(unit, self.indexes, most=room)}\n{mark}\n" if mark not in body and room > 0 else body
        promotes = _promotes(release, unit)
        latest: dict[str, Any] = {"make_latest": _latest(unit)} if promotes else {}
        name = release.name or unit.title or unit.tag
        release.update_release(name, more, prerelease=release.prerelease and not promotes, **latest)

    def _remove(self, drafts: Iterable[GitRelease]) -> None:
        for draft in drafts:
            self.hub.ask(lambda _, draft=draft: _exists(draft.delete_release))  # type: ignore[misc]

    # -- reading back

    def _verify(self, release: GitRelease, unit: Unit, *, whole: bool) -> None:
        """Compare the hash of every asset; with `whole`, none may be missing."""
        there = self._assets(release)
        differences = [self._difference(there.get(sent.name), sent, whole=whole) for sent in _select_files(unit, there)]
        problems = list(filter(None, differences))
        if problems:
            msg = f"{unit.tag} of {self.repository} is not what was sent there:\n" + "\n".join(problems)
            raise Rejected(msg, hint="the same command sends those files again, unless they are published already")

    def _difference(self, asset: GitReleaseAsset | None, sent: Sent, *, whole: bool) -> str:
        """Return how an asset differs from its file, or ""."""
        if asset is None or asset.state != "uploaded":
            return f"{sent.name} is {'not there' if asset is None else 'not whole'}" if whole else ""
        digest = asset.digest or f"sha256:{self.hub.ask(lambda _: _hash_asset(asset))}"
        found = printable(digest.removeprefix("sha256:"))
        if found != sent.sha256 and sent.is_list:
            content = self.hub.ask(lambda _: b"".join(_download_asset(asset)))
            found = sent.sha256 if of_releases.names_the_same(content, sent.content or b"") else found
        return "" if found == sent.sha256 else f"{sent.name} has sha256 {found[:12]}…, expected {sent.sha256[:12]}…"


class _Progress(NamedTuple):
    """The progress of one file within an upload of several."""

    step: Step
    before: int  # bytes of the files before it
    total: int


class _Reading(io.RawIOBase):
    """A file that is hashed while it is read, with its progress; never completely in memory."""

    def __init__(self, source: BinaryIO, sent: Sent, progress: _Progress) -> None:
        self.source, self.sent, self.progress = source, sent, progress
        self.digest, self.done = hashlib.sha256(), 0

    def __len__(self) -> int:
        """Return its size in bytes, which the HTTP client sends as the length."""
        return self.sent.size

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Read the next bytes, at most up to the size that was hashed."""
        chunk = self.source.read(min(len(memoryview(buffer)), self.sent.size - self.done))
        if not chunk and self.done < self.sent.size:
            raise _change_error(self.sent)
        memoryview(buffer)[: len(chunk)] = chunk
        self.digest.update(chunk)
        self.done += len(chunk)
        self.progress.step.progress(self.progress.before + self.done, self.progress.total)
        return len(chunk)


@contextmanager
def _reading(sent: Sent, progress: _Progress) -> Iterator[_Reading]:
    """Yield a file's reader; raise MachineError if the file cannot be read."""
    try:
        source = sent.path.open("rb") if sent.path else io.BytesIO(sent.content or b"")
    except OSError as error:
        msg = f"{sent.path} cannot be read: {error.strerror}"
        raise MachineError(msg) from None
    with source:
        yield _Reading(source, sent, progress)


def _change_error(sent: Sent) -> MachineError:
    msg = f"{sent.name} changed while it was published"
    return MachineError(msg, hint="give the same command again once nothing writes to it")


# -- the rules


def _refuse_by_rules(unit: Unit) -> None:
    """Raise RejectedInput with every violation of GitHub's rules."""
    problems = [*_problems_of_tag(unit.tag), *(problem for item in unit.items for problem in _problems_of(item))]
    if len(unit.items) >= MOST_ASSETS:
        what = f"{len(unit.items):,} files and their list, GitHub takes {MOST_ASSETS:,} to a release"
        problems.append(Problem(unit.tag, what))
    if problems:
        raise RejectedInput(problems, hint="publish these files to an index of your own, such as s3://BUCKET/whl")


def _problems_of_tag(tag: str) -> Iterator[Problem]:
    if not tag:
        yield Problem("", "the plan names no tag for the release, expected one such as v1.0")
    elif NO_TAG.search(tag) or COMMIT.fullmatch(tag):
        yield Problem("", f'"{printable(tag)}" is no tag that git takes, expected one such as v1.0')


def _problems_of(item: Item) -> Iterator[Problem]:
    if item.size >= MOST_BYTES:
        yield Problem(printable(item.name), f"{item.size:,} bytes, GitHub takes files of less than {MOST_BYTES:,}")
    if item.size == 0:
        yield Problem(printable(item.name), "it is empty, and GitHub takes no empty file")
    if not KEPT_NAME.fullmatch(item.name):
        yield Problem(printable(item.name), "GitHub would give it another name, and no installer takes it by that")


def _refuse_more(unit: Unit, published: GitRelease, there: Collection[str], lacking: Sequence[Sent]) -> None:
    """Raise InputError if a published release cannot take the missing files."""
    if lacking and published.immutable:
        msg = f"{unit.tag} is an immutable release, and it lacks {lacking[0].name}"
        hint = "raise the version, with this platform among the required ones, or turn immutable releases off before it"
        raise InputError(msg, hint=hint)
    if len(there) + len(lacking) > MOST_ASSETS:
        msg = f"{unit.tag} would have {len(there) + len(lacking):,} files, GitHub takes {MOST_ASSETS:,} to a release"
        raise InputError(msg)


# -- small questions


@functools.lru_cache(maxsize=8)  # every step needs them, and each wheel is opened for its METADATA
def _files(unit: Unit) -> tuple[Sent, ...]:
    """Return every file of the unit's release: its items, their METADATA (PEP 658), and the list of them."""
    facts = {item.name: _facts(item) for item in unit.items}
    items = [Sent(item.name, item.sha256, item.size, item.path) for item in unit.items]
    beside = [
        _make_asset(f"{name}{METADATA_SUFFIX}", known.metadata) for name, known in facts.items() if known.metadata
    ]
    return (*items, *beside, _make_asset(listing_name(unit.name), listing(unit, facts)))


def _make_asset(name: str, content: bytes) -> Sent:
    return Sent(name, hashlib.sha256(content).hexdigest(), len(content), None, content)


def _facts(item: Item) -> Facts:
    """Return the metadata of a wheel; that of an sdist is not reliable for installers."""
    if item.path.suffix != ".whl":
        return Facts()
    metadata, requires = metadata_of(item.path)
    return Facts(requires, metadata)


def _select_files(unit: Unit, there: Collection[str]) -> tuple[Sent, ...]:
    """Return the files for the unit's release, without METADATA if the release would have too many assets."""
    files = _files(unit)
    others = set(there) - {sent.name for sent in files}
    if len(others) + len(files) <= MOST_ASSETS:
        return files
    return tuple(sent for sent in files if not sent.name.endswith(METADATA_SUFFIX))


def _channel(release: GitRelease, listing: Listing) -> str:
    """Return a release's folder in an index; by its version, since its flags may have been changed."""
    version = parse_version(listing.version)
    if version.is_devrelease:
        return f"{Channel.NIGHTLY}/"
    return f"{Channel.TEST}/" if candidate_of(release.tag_name, version) else ""


def _slug(unit: Unit) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in unit.name)


def _mark(unit: Unit) -> str:
    """Return the comment that identifies the files of one of our releases."""
    lines = sorted(f"{item.sha256} {item.name}" for item in unit.items)
    digest = hashlib.sha256("\n".join([unit.name, *lines]).encode()).hexdigest()
    return f"<!-- fatwheel {_slug(unit)} sha256:{digest} -->"


def _is_told(release: GitRelease, unit: Unit) -> bool:
    """Whether a published release needs no update of its notes for the unit; full notes take no more text."""
    body = release.body or ""
    return not _promotes(release, unit) and (_mark(unit) in body or len(body) + len(_mark(unit)) + 4 >= FULL)


def _promotes(release: GitRelease, unit: Unit) -> bool:
    """Whether a unit makes a prerelease stable; a retracted release stays as it is."""
    return release.prerelease and not _is_early(unit) and notice.notice_of(release.body or "") is None


def _list_assets(release: GitRelease) -> list[GitReleaseAsset]:
    """Return a release's assets; raise MachineError if the release no longer exists."""
    try:
        return list(release.get_assets())
    except UnknownObjectException:
        msg = f"the release of {printable(release.tag_name)} was deleted meanwhile"
        raise MachineError(msg, hint="give the same command again, it looks anew") from None


def _is_early(unit: Unit) -> bool:
    return unit.edition.channel is not Channel.STABLE


def _latest(unit: Unit) -> str:
    """Return GitHub's `make_latest`: with `legacy` the higher version wins, so a fix of an old line does not."""
    return "false" if _is_early(unit) else "legacy"


def _is_whole(asset: GitReleaseAsset | None, sent: Sent) -> bool:
    """Whether an asset holds the file, by GitHub's digest or else by its size; `verify` reads one without a digest."""
    if asset is None or asset.state != "uploaded":
        return False
    return asset.digest == f"sha256:{sent.sha256}" if asset.digest else asset.size == sent.size


def _exists(call: Any) -> bool:  # noqa: ANN401 - its result is not used
    """Call `call`; return False on HTTP 404, else True."""
    try:
        call()
    except UnknownObjectException:
        return False
    return True


def _commit_of_tag(repository: Repository, tag: str) -> str:
    """Return the commit of a tag, or "" if the tag does not exist."""
    try:
        target = repository.get_git_ref(f"tags/{tag}").object
        if target.type == "tag":
            target = repository.get_git_tag(target.sha).object
    except UnknownObjectException:
        return ""
    return target.sha


def _meaning(error: GithubException, sent: Sent) -> Exception:
    """Return the error of a failed upload: if two publishers upload at once, one waits for the other."""
    if _has(error, "already_exists", "name"):
        return Busy(_describe_contention(sent))
    if isinstance(error, UnknownObjectException):
        return Busy(f"the draft changed while {sent.name} was sent")
    return error


def _describe_contention(sent: Sent) -> str:
    return f"another publisher sends {sent.name}"


def _has(error: GithubException, code: str, name: str) -> bool:
    """Whether GitHub finds that fault with that field."""
    errors = error.data.get("errors") if isinstance(error.data, dict) else None
    found = [one for one in errors or () if isinstance(one, dict)]
    return any((one.get("code"), one.get("field")) == (code, name) for one in found)


def _download_asset(asset: GitReleaseAsset) -> Iterator[bytes]:
    """Yield an asset's bytes."""
    yield from asset.download_asset(chunk_size=CHUNK)[2]


def _hash_asset(asset: GitReleaseAsset) -> str:
    digest = hashlib.sha256()
    for chunk in _download_asset(asset):
        digest.update(chunk)
    return digest.hexdigest()
