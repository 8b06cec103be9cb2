"""GitHub Releases: files go into a draft that nobody sees, are compared with their hashes, and published in one step.

A draft is known as ours by a comment in its notes that holds the digest of the unit's files. A draft with other files
is therefore never touched before ours is published: GitHub publishes one release of a tag, and the loser says so.
Where a release of the tag is published already (the core's, or one that a person made by hand), files go straight to
it when it is time to switch, each visible when it is whole.
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
MOST_BYTES = 2 << 30  # of an asset; it must be smaller
FULL = MOST_CHARACTERS - notice.MOST_CHARACTERS  # characters of notes, with room for what a retraction says
CHUNK = 1 << 20
KEPT_NAME = re.compile(r"[A-Za-z0-9_-]([A-Za-z0-9_.+@-]*[A-Za-z0-9_+@-])?")  # GitHub puts dots for other characters
MARK = re.compile(r"<!-- fatwheel ([A-Za-z0-9-]+) sha256:([0-9a-f]{64}) -->")
NO_TAG = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[-./]|[./]$|^@$")  # git check-ref-format
COMMIT = re.compile(r"[0-9a-f]{40}")
LIST = re.compile(r"fatwheel-[A-Za-z0-9-]+\.json")
FIRST = "publish the core first: its files make the release"
BINARY = "application/octet-stream"
WITHOUT_METADATA = "there is no .metadata beside the wheels, and installers fetch a wheel to read what it requires"


class Sent(NamedTuple):
    """One file that becomes an asset: the bytes of `content`, or where that is None, of the file at `path`."""

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
    """What there is of a unit's tag."""

    published: GitRelease | None
    draft: GitRelease | None  # ours, with these very files
    spare: tuple[GitRelease, ...]  # drafts of ours that nobody needs
    other: tuple[GitRelease, ...]  # drafts of ours with other files, of no use once one is published


@dataclass(frozen=True, slots=True)
class GitHubTarget:
    """The releases of one repository; `indexes` are the addresses that its notes tell people to install from."""

    order: ClassVar[int] = 2
    stages: ClassVar[bool] = True

    repository: str  # OWNER/REPO
    outside: Outside = field(repr=False)
    base_url: str = field(default="", kw_only=True)
    indexes: tuple[str, ...] = field(default=(), kw_only=True)
    pause: float = field(default=PAUSE, kw_only=True)  # seconds between two writes, and before the second try
    patience: float = field(default=PATIENCE, kw_only=True)  # seconds that one request may wait, all in all

    @property
    def address(self) -> str:
        """The target as the user writes it."""
        return f"github:{self.repository}"

    @property
    def hub(self) -> Hub:
        """The repository that is asked."""
        return Hub(self.repository, self.outside, self.base_url, self.pause, self.patience)

    # -- the four steps

    def check(self, unit: Unit) -> Sequence[Change]:
        """Return what publishing would change here; write nothing.

        Raises InputError where GitHub's rules forbid the unit, its release holds one of the files with other bytes or
        takes no more files, or its tag is at another commit; MachineError where GitHub does not answer.
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
        """Raise what `check` will: the list of the unit's files, which is not whole yet, is left out."""
        _refuse_by_rules(unit)
        with self.hub.opened() as repository:
            published = self._find_releases(repository, unit).published
            if published is None:
                self._refuse_commit(repository, unit, published)
                return
            there = {name: asset for name, asset in self._assets(published).items() if asset.state == "uploaded"}
            self._refuse_others(unit, there, [sent for sent in _files(unit) if not sent.is_list])

    def stage(self, unit: Unit) -> None:
        """Bring every file into a draft; where the release is published already, nothing can be hidden, nor is staged.

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
        """Read the hashes of what is here back; raise Rejected where one is not the unit's, or a draft lacks a file."""
        with self.hub.opened() as repository:
            seen = self._find_releases(repository, unit)
            release = seen.published or seen.draft
            if release is None and unit.name == CORE:
                raise self._absent(unit)
            if release is not None:
                self._verify(release, unit, whole=seen.published is None)

    def switch(self, unit: Unit) -> Sequence[Published]:
        """Show the unit to everybody, and return its files here; what is published already stays as it is."""
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
        """Return the error for a release that should be here."""
        if unit.name == CORE:
            msg = f"the draft of {unit.tag} is gone from {self.repository}"
            return MachineError(msg, hint="give the same command again, it makes a new one")
        msg = f"{unit.tag} of {self.repository} is not published yet, and {unit.name} is added to it"
        hint = "publish the release itself first, without --torch" if unit.added else FIRST
        return InputError(msg, hint=hint)

    # -- the index over release assets

    def listings(self, project: str) -> dict[str, tuple[Listing, ...]]:
        """Return what the lists of published releases say of a project, by channel as an index has it, newest first.

        Their files lie where GitHub has them, and those of a retracted release are yanked. A file that was taken out
        of its release is left out. Raises InputError where no release has a file of the project, MachineError where a
        list is damaged.
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
        """Yield what a release's lists say, each with its channel, and say which wheels none of them names."""
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
        """Return what a list says; raise MachineError where it is damaged."""
        try:
            if asset.size > of_releases.MOST_BYTES:
                msg = f"it has {asset.size:,} bytes"
                raise ValueError(msg)  # noqa: TRY301 - whatever is wrong with it is one error
            content = self.hub.ask(lambda _: b"".join(_download_asset(asset)))
            return read_listing(content, release.published_at.strftime("%Y-%m-%dT%H:%M:%SZ"))
        except ValueError as error:
            where = f"{asset.name} of {printable(release.tag_name)} in {self.repository}"
            msg = f"{where} is damaged: {printable(str(error))}"
            raise MachineError(msg, hint="delete it there, and publish that version again") from None

    def _link_file(self, file: IndexedFile, there: Mapping[str, GitReleaseAsset], release: GitRelease) -> IndexedFile:
        """Return a file with its address; its METADATA is offered where the very bytes lie beside it."""
        beside = there.get(f"{file.name}{METADATA_SUFFIX}")
        digest = "" if beside is None else beside.digest or f"sha256:{self.hub.ask(lambda _: _hash_asset(beside))}"
        return file._replace(
            at=there[file.name].browser_download_url,
            candidate=candidate_of(release.tag_name, project_and_version(file.name)[1]),
            metadata_sha256=file.metadata_sha256 if digest == f"sha256:{file.metadata_sha256}" else "",
        )

    # -- what is there

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
        """Return a release's assets by name; raise MachineError where the release is gone."""
        return {asset.name: asset for asset in self.hub.ask(lambda _: _list_assets(release))}

    def _refuse_change(
        self, unit: Unit, published: GitRelease | None
    ) -> tuple[Sequence[Sent], dict[str, GitReleaseAsset]]:
        """Return the files that a unit's release is to have, and the whole assets of a published one.

        Raises InputError where one is a file of the unit with other bytes, or where it cannot take what it lacks.
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
        """Raise RejectedInput where a published release holds one of the files with other bytes."""
        differences = [self._difference(there.get(sent.name), sent, whole=False) for sent in files]
        if problems := [Problem("", what) for what in differences if what]:
            problems = [Problem(unit.tag, f"is published in {self.repository} with other bytes"), *problems]
            raise RejectedInput(problems, hint="a published file never changes: raise the version")

    def _refuse_commit(self, repository: Repository, unit: Unit, published: GitRelease | None) -> str:
        """Return the commit that the tag is to be made at, or nothing; raise InputError where it is at another one."""
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

    # -- what is written

    def _new_draft(self, repository: Repository, unit: Unit, commit: str) -> GitRelease:
        """Return our draft, made where it is not there; of two that were made at once, the older one is taken."""
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
        """Return the notes of a release, with the comment by which it is known as ours."""
        links = f"{repository.html_url}/releases/expanded_assets/{quote(unit.tag)}"
        room = FULL - len(_mark(unit)) - 2
        return f"{notes(unit, self.indexes, links=links, most=room)}\n{_mark(unit)}\n"

    def _send(self, release: GitRelease, unit: Unit) -> frozenset[str]:
        """Bring the files that a release lacks, and return their names."""
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
        """Whether a release has a file; the list that a published one has stays if it names the same files."""
        if _is_whole(asset, sent) or asset is None:
            return _is_whole(asset, sent)
        return sent.is_list and not release.draft and not self._difference(asset, sent, whole=True)

    def _send_one(self, release: GitRelease, sent: Sent, old: GitReleaseAsset | None, progress: _Progress) -> None:
        """Bring one file; what was left of it by a cut upload, or is not its bytes, gives way."""
        other = False  # whether another publisher was seen to send it

        def once(again: bool) -> None:  # noqa: FBT001 - Hub.ask calls it so
            nonlocal other
            # What was not whole a while ago may be by now, and published: it is looked at again before it is deleted.
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
        """Take an asset away that is not the file which was to be sent, and raise what is wrong with it."""
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
        """Publish our draft, and return it, or None where another release of the tag was faster."""
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
        """Bring what a published release lacks of the unit, and say so in its notes."""
        self._refuse_change(unit, release)
        added = self._send(release, unit)
        if not _is_told(release, unit):
            self.hub.ask(lambda _: self._tell(release, unit))
        return added

    def _tell(self, release: GitRelease, unit: Unit) -> None:
        """Add a unit to the notes of a published release, and let it count as stable where the unit is."""
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
        """Compare the hash of every asset; `whole` says that none may be missing."""
        there = self._assets(release)
        differences = [self._difference(there.get(sent.name), sent, whole=whole) for sent in _select_files(unit, there)]
        problems = list(filter(None, differences))
        if problems:
            msg = f"{unit.tag} of {self.repository} is not what was sent there:\n" + "\n".join(problems)
            raise Rejected(msg, hint="the same command sends those files again, unless they are published already")

    def _difference(self, asset: GitReleaseAsset | None, sent: Sent, *, whole: bool) -> str:
        """Return what is wrong with an asset, or nothing."""
        if asset is None or asset.state != "uploaded":
            return f"{sent.name} is {'not there' if asset is None else 'not whole'}" if whole else ""
        digest = asset.digest or f"sha256:{self.hub.ask(lambda _: _hash_asset(asset))}"
        found = printable(digest.removeprefix("sha256:"))
        if found != sent.sha256 and sent.is_list:
            content = self.hub.ask(lambda _: b"".join(_download_asset(asset)))
            found = sent.sha256 if of_releases.names_the_same(content, sent.content or b"") else found
        return "" if found == sent.sha256 else f"{sent.name} has sha256 {found[:12]}…, expected {sent.sha256[:12]}…"


class _Progress(NamedTuple):
    """Where the progress of one file goes."""

    step: Step
    before: int  # bytes of other files
    total: int


class _Reading(io.RawIOBase):
    """A file that is hashed, and whose progress is shown, while it is read; it is never whole in memory."""

    def __init__(self, source: BinaryIO, sent: Sent, progress: _Progress) -> None:
        self.source, self.sent, self.progress = source, sent, progress
        self.digest, self.done = hashlib.sha256(), 0

    def __len__(self) -> int:
        """Return how many bytes it has, which its reader says before it sends them."""
        return self.sent.size

    def readable(self) -> bool:
        """Return that it is."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Read the next bytes, as far as those that were hashed go."""
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
    """Yield the bytes of a file; raise MachineError where they cannot be read."""
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
    """Raise RejectedInput with everything that GitHub would not take."""
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
    """Raise InputError where a published release cannot take what it lacks."""
    if lacking and published.immutable:
        msg = f"{unit.tag} is an immutable release, and it lacks {lacking[0].name}"
        hint = "raise the version, with this platform among the required ones, or turn immutable releases off before it"
        raise InputError(msg, hint=hint)
    if len(there) + len(lacking) > MOST_ASSETS:
        msg = f"{unit.tag} would have {len(there) + len(lacking):,} files, GitHub takes {MOST_ASSETS:,} to a release"
        raise InputError(msg)


# -- small questions


@functools.lru_cache(maxsize=8)  # every step asks for them, and each wheel is opened for its METADATA
def _files(unit: Unit) -> tuple[Sent, ...]:
    """Return every file that the unit's release has: its items, their METADATA (PEP 658), and the list of them."""
    facts = {item.name: _facts(item) for item in unit.items}
    items = [Sent(item.name, item.sha256, item.size, item.path) for item in unit.items]
    beside = [
        _make_asset(f"{name}{METADATA_SUFFIX}", known.metadata) for name, known in facts.items() if known.metadata
    ]
    return (*items, *beside, _make_asset(listing_name(unit.name), listing(unit, facts)))


def _make_asset(name: str, content: bytes) -> Sent:
    return Sent(name, hashlib.sha256(content).hexdigest(), len(content), None, content)


def _facts(item: Item) -> Facts:
    """Return what a wheel says of itself; an sdist's METADATA is nothing that an installer may go by."""
    if item.path.suffix != ".whl":
        return Facts()
    metadata, requires = metadata_of(item.path)
    return Facts(requires, metadata)


def _select_files(unit: Unit, there: Collection[str]) -> tuple[Sent, ...]:
    """Return the files for the unit's release, without METADATA where they and what others put there are too many."""
    files = _files(unit)
    others = set(there) - {sent.name for sent in files}
    if len(others) + len(files) <= MOST_ASSETS:
        return files
    return tuple(sent for sent in files if not sent.name.endswith(METADATA_SUFFIX))


def _channel(release: GitRelease, listing: Listing) -> str:
    """Return the folder that an index has such a release in: a flag of the release may have been changed since."""
    version = parse_version(listing.version)
    if version.is_devrelease:
        return f"{Channel.NIGHTLY}/"
    return f"{Channel.TEST}/" if candidate_of(release.tag_name, version) else ""


def _slug(unit: Unit) -> str:
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in unit.name)


def _mark(unit: Unit) -> str:
    """Return the comment that says which files a release of ours holds."""
    lines = sorted(f"{item.sha256} {item.name}" for item in unit.items)
    digest = hashlib.sha256("\n".join([unit.name, *lines]).encode()).hexdigest()
    return f"<!-- fatwheel {_slug(unit)} sha256:{digest} -->"


def _is_told(release: GitRelease, unit: Unit) -> bool:
    """Whether a published release says of the unit what there is to say; full notes take no more."""
    body = release.body or ""
    return not _promotes(release, unit) and (_mark(unit) in body or len(body) + len(_mark(unit)) + 4 >= FULL)


def _promotes(release: GitRelease, unit: Unit) -> bool:
    """Whether a unit makes a prerelease stable; one that was retracted stays as it is."""
    return release.prerelease and not _is_early(unit) and notice.notice_of(release.body or "") is None


def _list_assets(release: GitRelease) -> list[GitReleaseAsset]:
    """Return a release's assets; raise MachineError where the release is gone."""
    try:
        return list(release.get_assets())
    except UnknownObjectException:
        msg = f"the release of {printable(release.tag_name)} was deleted meanwhile"
        raise MachineError(msg, hint="give the same command again, it looks anew") from None


def _is_early(unit: Unit) -> bool:
    return unit.edition.channel is not Channel.STABLE


def _latest(unit: Unit) -> str:
    """Return whether it becomes the latest: `legacy` lets the higher version win, an old line's repair does not."""
    return "false" if _is_early(unit) else "legacy"


def _is_whole(asset: GitReleaseAsset | None, sent: Sent) -> bool:
    """Whether an asset holds the file, as far as GitHub says; `verify` reads it where it gives no digest."""
    if asset is None or asset.state != "uploaded":
        return False
    return asset.digest == f"sha256:{sent.sha256}" if asset.digest else asset.size == sent.size


def _exists(call: Any) -> bool:  # noqa: ANN401 - its answer is of no interest
    """Call, and return whether what it is about is there."""
    try:
        call()
    except UnknownObjectException:
        return False
    return True


def _commit_of_tag(repository: Repository, tag: str) -> str:
    """Return the commit that a tag is at, or nothing where there is no such tag."""
    try:
        target = repository.get_git_ref(f"tags/{tag}").object
        if target.type == "tag":
            target = repository.get_git_tag(target.sha).object
    except UnknownObjectException:
        return ""
    return target.sha


def _meaning(error: GithubException, sent: Sent) -> Exception:
    """Return what an upload's error means: of two publishers at once, one waits for the other's upload to end."""
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
