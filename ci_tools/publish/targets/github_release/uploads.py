"""Uploads files to a GitHub Release; each is hashed while it is read."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from github.GithubException import GithubException, UnknownObjectException

from ci_tools.errors import InputError, MachineError
from ci_tools.github.client import Busy, Failed, Hub, printable
from ci_tools.index.units import Unit
from ci_tools.machine.context import Step
from ci_tools.publish.targets.github_release.assets import Sent, find_difference, is_whole, read_assets, select_assets
from ci_tools.publish.targets.github_release.releases import exists

if TYPE_CHECKING:
    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset
    from typing_extensions import Buffer


BINARY = "application/octet-stream"
OTHER = "another publisher uploads {}"


class Progress(NamedTuple):
    """The progress of one file within an upload of several."""

    step: Step
    before: int  # bytes of the files before it
    total: int


class HashedFile(io.RawIOBase):
    """A file that is hashed while it is read, with its progress; never completely in memory."""

    def __init__(self, source: BinaryIO, sent: Sent, progress: Progress) -> None:
        self.source, self.sent, self.progress = source, sent, progress
        self.digest, self.done = hashlib.sha256(), 0

    def __len__(self) -> int:
        """Return its size in bytes, which the HTTP client sends as the length."""
        return self.sent.size

    def tell(self) -> int:
        """Return how much was read: without it, requests sends chunks beside the length (RFC 9112, 6.2)."""
        return self.done

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Read the next bytes, at most up to the size that was hashed."""
        chunk = self.source.read(min(len(memoryview(buffer)), self.sent.size - self.done))  # it may have grown
        if not chunk and self.done < self.sent.size:
            raise _change_error(self.sent)
        memoryview(buffer)[: len(chunk)] = chunk
        self.digest.update(chunk)
        self.done += len(chunk)
        self.progress.step.progress(self.progress.before + self.done, self.progress.total)
        return len(chunk)


def upload_missing(hub: Hub, release: GitRelease, unit: Unit) -> frozenset[str]:
    """Upload the files that a release lacks, and return their names."""
    there = read_assets(hub, release)
    lacking = [sent for sent in select_assets(unit, there) if not _is_in(hub, release, there.get(sent.name), sent)]
    if not lacking:
        return frozenset()
    total = sum(sent.size for sent in lacking)
    with hub.outside.reporter.step(f"uploading {len(lacking)} files to github:{hub.repository}") as step:
        done = 0
        for sent in lacking:
            _upload(hub, release, sent, there.get(sent.name), Progress(step, done, total))
            done += sent.size
    return frozenset(sent.name for sent in lacking)


def _is_in(hub: Hub, release: GitRelease, asset: GitReleaseAsset | None, sent: Sent) -> bool:
    """Whether a release has a file; a published list is kept if it names the same files."""
    if is_whole(asset, sent) or asset is None:
        return is_whole(asset, sent)
    return sent.is_list and not release.draft and not find_difference(hub, asset, sent, whole=True)


def _upload(hub: Hub, release: GitRelease, sent: Sent, old: GitReleaseAsset | None, progress: Progress) -> None:
    """Upload one file, after deleting an asset of its name that is incomplete or has other bytes."""
    other = False  # whether another publisher is uploading it

    def once(again: bool) -> None:  # noqa: FBT001 - Hub.ask calls it so
        nonlocal other
        # An incomplete asset may be complete and published by now: look again before deleting it.
        present = read_assets(hub, release).get(sent.name) if again or old else None
        if _is_in(hub, release, present, sent):
            return
        if present and other and present.state != "uploaded":
            raise Busy(OTHER.format(sent.name))
        if present:
            exists(present.delete_asset)  # False if somebody else has deleted it
        try:
            with _open_asset(sent, progress) as content:
                stream = cast("BinaryIO", content)
                asset = release.upload_asset_from_memory(stream, sent.size, sent.name, BINARY, label=sent.name)
        except GithubException as error:
            other = has_fault(error, "already_exists", "name")
            if contention := _describe_contention(error, sent):
                raise Busy(contention) from error
            raise
        _refuse_other(asset, sent, content.digest.hexdigest())

    hub.ask(once)


def _refuse_other(asset: GitReleaseAsset, sent: Sent, sha256: str) -> None:
    """Delete an asset that differs from the uploaded file, and raise an error that says why."""
    is_right = asset.digest in {None, f"sha256:{sent.sha256}"}
    if asset.name == sent.name and sha256 == sent.sha256 and is_right:
        return
    exists(asset.delete_asset)
    if asset.name != sent.name:
        msg = f"GitHub renamed {sent.name} to {printable(asset.name)}, a name that installers do not accept"
        raise InputError(msg, hint="publish this version to an index of your own")
    if sha256 != sent.sha256:
        raise _change_error(sent)
    raise Failed(f"GitHub stored other bytes of {sent.name} than were uploaded")


@contextmanager
def _open_asset(sent: Sent, progress: Progress) -> Iterator[HashedFile]:
    """Yield a file's reader; raise MachineError if the file cannot be read."""
    try:
        source = sent.path.open("rb") if sent.path else io.BytesIO(sent.content or b"")
    except OSError as error:
        raise MachineError(f"{sent.path} cannot be read: {error.strerror}") from error
    with source:
        yield HashedFile(source, sent, progress)


def _change_error(sent: Sent) -> MachineError:
    msg = f"{sent.name} changed while it was published"
    return MachineError(msg, hint="run the same command again once nothing writes to it")


def _describe_contention(error: GithubException, sent: Sent) -> str:
    """Return why another publisher made an upload fail, or "": of two at once, one waits for the other."""
    if has_fault(error, "already_exists", "name"):
        return OTHER.format(sent.name)
    return f"the draft changed while {sent.name} was uploaded" if isinstance(error, UnknownObjectException) else ""


def has_fault(error: GithubException, code: str, name: str) -> bool:
    """Whether GitHub finds that fault with that field."""
    errors = error.data.get("errors") if isinstance(error.data, dict) else None
    found = [one for one in errors or () if isinstance(one, dict)]
    return any((one.get("code"), one.get("field")) == (code, name) for one in found)
