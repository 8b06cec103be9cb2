"""Where an index keeps its files: a folder, or a bucket. A key is a path with forward slashes.

Nothing is ever written over blindly: who writes says what was there when it looked, and is told when that has changed.
"""

from __future__ import annotations

import hashlib
import io
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from ci_tools.errors import InputError, MachineError
from ci_tools.machine.storage import (
    CHUNK,
    hold_lock,
    sha256_of,
    write_atomically,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ci_tools.machine.context import Reporter

__all__ = ["Content", "Entry", "FolderStore", "Found", "Store", "content_of_bytes", "content_of_file", "utc"]

INDEX = "index.html"
UNFINISHED = "unfinished"  # the folder of what is being written


class Found(NamedTuple):
    """What is at a key."""

    tag: str  # another one for other bytes
    size: int
    generation: int = 0  # of what the page was made from, where the store keeps that
    sha256: str = ""  # of what was put there, where the store keeps that
    encoding: str = ""  # how its bytes are packed: gzip


class Entry(NamedTuple):
    """What a listing says of a key."""

    key: str
    size: int  # bytes
    modified: str  # RFC 3339, UTC


class Content(NamedTuple):
    """What is to be put somewhere: bytes, or a file that is too large for them."""

    sha256: str
    size: int
    data: bytes = b""
    path: Path | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield it piece by piece."""
        if self.path is None:
            yield self.data
            return
        with self.path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk


def content_of_bytes(data: bytes) -> Content:
    """Return bytes as content."""
    return Content(hashlib.sha256(data).hexdigest(), len(data), data)


def content_of_file(path: Path, sha256: str) -> Content:
    """Return a file as content; it must still have that hash when it is put."""
    return Content(sha256, path.stat().st_size, path=path)


def utc(time: datetime) -> str:
    """Return a time as RFC 3339 writes it."""
    return time.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def _copy(content: Content, sink: BinaryIO) -> None:
    """Copy a file; raise MachineError where it is not what it was."""
    digest = hashlib.sha256()
    for chunk in content.chunks():
        digest.update(chunk)
        sink.write(chunk)
    if digest.hexdigest() != content.sha256:
        msg = f"{content.path} changed while it was published"
        raise MachineError(msg, hint="run the same command again once nothing writes to it")


class Store(Protocol):
    """Bytes under keys. Every method raises MachineError where the store fails, InputError where it denies."""

    address: str  # of the whole: s3://bucket/whl
    reporter: Reporter

    def find(self, key: str) -> Found | None:
        """Return what is at a key."""

    def read(self, key: str) -> tuple[bytes, Found] | None:
        """Return the bytes at a key."""

    def chunks(self, key: str) -> Iterator[bytes]:
        """Yield the bytes at a key piece by piece; nothing where there is no such key."""

    def is_whole(self, key: str, found: Found, content: Content) -> bool:
        """Return whether what was found at a key has the bytes that were put there: some servers take half of them.

        `content` is what the writer would put itself, by which the bytes may be known without being read.
        """

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content at a key, in one step; return False, and write nothing, where something else is there by now."""

    def remove(self, key: str) -> None:
        """Remove what is at a key, if anything."""

    def listed(self, folder: str = "") -> Iterator[str]:
        """Yield every key below a folder."""

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield every key below a folder, with what a listing says of it."""

    def folders(self, below: str = "") -> frozenset[str]:
        """Return the folders right below another, which ends in a slash, or right below the root."""

    def part(self, key: str, start: int, size: int) -> bytes:
        """Return at most `size` bytes at a key from `start` on, or with a negative `start` its last bytes."""

    def outside(self, path: str) -> Iterator[bytes]:
        """Yield the bytes at a path that leads out of the root: `../pool/demo-1.0.tar.gz`."""

    def amend(self, key: str, data: bytes, *, instead_of: Found) -> bool:
        """Put other bytes in place of others' that were found at a key, and keep all that is said of them there."""

    def page_keys(self, folder: str) -> tuple[str, ...]:
        """Return the keys that a client may ask for the page of a folder by; the folder ends in a slash or is empty."""

    def alone(self, root: str = "") -> AbstractContextManager[object]:
        """Keep other writers out of the index that begins at `root`, where the store can."""

    def url(self, key: str) -> str:
        """Return the address that a client fetches a key at."""


class FolderStore:
    """A folder on this machine, served by any web server or by `file:`; its tags are sha256s.

    It keeps no generations: its writers come one after another.
    """

    def __init__(self, root: Path, reporter: Reporter) -> None:
        self.root = root
        self.reporter = reporter
        self.address = f"dir:{root}"
        self._unfinished = root / ".fatwheel" / UNFINISHED

    def find(self, key: str) -> Found | None:
        """Return what is at a key."""
        path = self._path(key)
        return Found(sha256_of(path), path.stat().st_size) if path.is_file() else None

    def read(self, key: str) -> tuple[bytes, Found] | None:
        """Return the bytes at a key."""
        path = self._path(key)
        if not path.is_file():
            return None
        data = path.read_bytes()
        return data, Found(hashlib.sha256(data).hexdigest(), len(data))

    def chunks(self, key: str) -> Iterator[bytes]:
        """Yield the bytes at a key."""
        path = self._path(key)
        if path.is_file():
            yield from Content("", 0, path=path).chunks()

    def is_whole(self, key: str, found: Found, content: Content) -> bool:  # noqa: ARG002 - see Store
        """Return True: a file takes its name once all of it is written."""
        return True

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content at a key; raise MachineError where the file it comes from is not what it was.

        A page, which has a generation, is not waited for until the disk has it: it can be written again.
        """
        found = self.find(key)
        if (found and found.tag) != (instead_of and instead_of.tag):
            return False
        with write_atomically(self._path(key), self._unfinished, durable=not generation) as sink:
            if content.path is None:
                sink.write(content.data)
            else:
                _copy(content, sink)
        return True

    def remove(self, key: str) -> None:
        """Remove what is at a key, and the folders that nothing is left in."""
        path = self._path(key)
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self.root or not folder.is_relative_to(self.root):
                return
            with suppress(OSError):
                folder.rmdir()

    def listed(self, folder: str = "") -> Iterator[str]:
        """Yield every key below a folder."""
        for path in sorted((self.root / folder).rglob("*")):
            if path.is_file() and not path.name.endswith(".lock") and path.parent.name != UNFINISHED:
                yield path.relative_to(self.root).as_posix()

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield every key below a folder, with its size and time."""
        for key in self.listed(folder):
            found = self._path(key).stat()
            yield Entry(key, found.st_size, utc(datetime.fromtimestamp(found.st_mtime, timezone.utc)))

    def folders(self, below: str = "") -> frozenset[str]:
        """Return the folders right below another."""
        return frozenset(path.name for path in (self.root / below).glob("*") if path.is_dir())

    def part(self, key: str, start: int, size: int) -> bytes:
        """Return some of the bytes at a key."""
        with self._path(key).open("rb") as file:
            file.seek(start if start >= 0 else max(file.seek(0, io.SEEK_END) + start, 0))
            return file.read(size)

    def outside(self, path: str) -> Iterator[bytes]:
        """Yield the bytes at a path that leads out of the folder."""
        yield from Content("", 0, path=self.root / path).chunks()

    def amend(self, key: str, data: bytes, *, instead_of: Found) -> bool:
        """Put other bytes in place of others' at a key, with the rights that their file has."""
        mode = self._path(key).stat().st_mode
        is_done = self.put(key, content_of_bytes(data), instead_of=instead_of)
        if is_done:
            self._path(key).chmod(mode & 0o777)
        return is_done

    def page_keys(self, folder: str) -> tuple[str, ...]:
        """Return the one key of a folder's page: every server gives it for the folder."""
        return (f"{folder}{INDEX}",)

    @contextmanager
    def alone(self, root: str = "") -> Iterator[None]:
        """Keep other writers out, and remove what a killed one had begun to write."""
        own = self._path(f"{root}.fatwheel")
        with hold_lock(own / "index", self.reporter.say):
            self._unfinished = own / UNFINISHED
            for begun in self._unfinished.glob("*"):
                begun.unlink(missing_ok=True)
            yield

    def url(self, key: str) -> str:
        """Return the `file:` address of a key."""
        return self._path(key).as_uri()

    def _path(self, key: str) -> Path:
        if key.startswith("/") or ".." in key.split("/"):
            msg = f"{key} leads out of {self.root}"
            raise InputError(msg)
        return self.root / key
