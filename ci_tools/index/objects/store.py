"""The storage of an index: a folder or a bucket. A key is a path with forward slashes.

No write overwrites blindly: the writer passes the object it has seen at the key, and the write fails if that changed.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from ci_tools.errors import InputError, MachineError
from ci_tools.machine.storage import CHUNK, hold_lock, sha256_of, write_atomically

if TYPE_CHECKING:
    from ci_tools.machine.context import Reporter

INDEX = "index.html"
UNFINISHED = "unfinished"  # the folder of files that are still being written


class Found(NamedTuple):
    """The object found at a key."""

    tag: str  # changes with the bytes, as an HTTP ETag does
    size: int  # bytes
    generation: int = 0  # of the manifest that a page was made from, if the store keeps it
    sha256: str = ""  # of the bytes that were uploaded, if the store keeps it
    encoding: str = ""  # the Content-Encoding, such as gzip


class Entry(NamedTuple):
    """One key of a listing."""

    key: str
    size: int  # bytes
    modified: str  # RFC 3339, UTC


class Content(NamedTuple):
    """Content to upload: bytes in memory, or a file that is too large for that."""

    sha256: str
    size: int
    data: bytes = b""
    path: Path | None = None

    def chunks(self) -> Iterator[bytes]:
        """Yield the content piece by piece."""
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
    """Return a file as content; it must still have that hash when it is uploaded."""
    return Content(sha256, path.stat().st_size, path=path)


def utc(time: datetime) -> str:
    """Return a time in UTC in the format of RFC 3339."""
    return time.astimezone(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def _copy(content: Content, sink: BinaryIO) -> None:
    """Copy a file; raise MachineError if its content has changed."""
    digest = hashlib.sha256()
    for chunk in content.chunks():
        digest.update(chunk)
        sink.write(chunk)
    if digest.hexdigest() != content.sha256:
        msg = f"{content.path} changed while it was published"
        raise MachineError(msg, hint="run the same command again once nothing writes to it")


class Store(Protocol):
    """Bytes under keys. Every method raises MachineError if the store fails, InputError if it denies access."""

    address: str  # of the whole store: s3://bucket/whl
    reporter: Reporter

    def find(self, key: str) -> Found | None:
        """Return the object at a key, or None."""

    def read(self, key: str) -> tuple[bytes, Found] | None:
        """Return the object at a key with its bytes, or None."""

    def chunks(self, key: str) -> Iterator[bytes]:
        """Yield the bytes at a key piece by piece; yield nothing if there is no such key."""

    def is_whole(self, key: str, found: Found, content: Content) -> bool:
        """Return whether the object at a key is complete: some servers store a part of an interrupted upload.

        `content` is the writer's own content. If the object is the same, it may be recognised without reading it.
        """

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content at a key atomically; return False and write nothing if the key no longer holds `instead_of`."""

    def remove(self, key: str) -> None:
        """Remove the object at a key, if there is one."""

    def listed(self, folder: str = "") -> Iterator[str]:
        """Yield every key below a folder."""

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Yield every key below a folder, with its size and time."""

    def folders(self, below: str = "") -> frozenset[str]:
        """Return the direct subfolders of a folder, whose name ends in a slash, or of the root."""

    def part(self, key: str, start: int, size: int) -> bytes:
        """Return at most `size` bytes at a key, beginning at `start`; a negative `start` counts from the end."""

    def outside(self, path: str) -> Iterator[bytes]:
        """Yield the bytes at a path outside the root: `../pool/demo-1.0.tar.gz`."""

    def amend(self, key: str, data: bytes, *, instead_of: Found) -> bool:
        """Replace the bytes of an object that others wrote, and keep its metadata and access; fail as `put` does."""

    def page_keys(self, folder: str) -> tuple[str, ...]:
        """Return the keys under which a client may ask for a folder's page; the folder ends in a slash or is empty."""

    def alone(self, root: str = "") -> AbstractContextManager[object]:
        """Lock the index that begins at `root` against other writers, if the store can."""

    def url(self, key: str) -> str:
        """Return the address at which a client downloads a key."""


class FolderStore:
    """A folder on this machine, served by any web server or by `file:`; its tags are sha256 digests.

    It keeps no generations: a lock lets only one writer in at a time.
    """

    def __init__(self, root: Path, reporter: Reporter) -> None:
        self.root = root
        self.reporter = reporter
        self.address = f"dir:{root}"
        self._unfinished = root / ".fatwheel" / UNFINISHED

    def find(self, key: str) -> Found | None:
        path = self._path(key)
        return Found(sha256_of(path), path.stat().st_size) if path.is_file() else None

    def read(self, key: str) -> tuple[bytes, Found] | None:
        path = self._path(key)
        if not path.is_file():
            return None
        data = path.read_bytes()
        return data, Found(hashlib.sha256(data).hexdigest(), len(data))

    def chunks(self, key: str) -> Iterator[bytes]:
        path = self._path(key)
        if path.is_file():
            yield from Content("", 0, path=path).chunks()

    def is_whole(self, key: str, found: Found, content: Content) -> bool:  # noqa: ARG002 - see Store
        """Return True: a file gets its name only when it is complete."""
        return True

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content at a key; raise MachineError if the file it comes from has changed.

        A page, which has a generation, is written without fsync: it can be rendered again.
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
        """Remove the file at a key, and the folders that are empty then."""
        path = self._path(key)
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == self.root or not folder.is_relative_to(self.root):
                return
            with suppress(OSError):
                folder.rmdir()

    def listed(self, folder: str = "") -> Iterator[str]:
        for path in sorted((self.root / folder).rglob("*")):
            if path.is_file() and not path.name.endswith(".lock") and path.parent.name != UNFINISHED:
                yield path.relative_to(self.root).as_posix()

    def entries(self, folder: str = "") -> Iterator[Entry]:
        for key in self.listed(folder):
            found = self._path(key).stat()
            yield Entry(key, found.st_size, utc(datetime.fromtimestamp(found.st_mtime, timezone.utc)))

    def folders(self, below: str = "") -> frozenset[str]:
        return frozenset(path.name for path in (self.root / below).glob("*") if path.is_dir())

    def part(self, key: str, start: int, size: int) -> bytes:
        with self._path(key).open("rb") as file:
            file.seek(start if start >= 0 else max(file.seek(0, io.SEEK_END) + start, 0))
            return file.read(size)

    def outside(self, path: str) -> Iterator[bytes]:
        yield from Content("", 0, path=self.root / path).chunks()

    def amend(self, key: str, data: bytes, *, instead_of: Found) -> bool:
        """Replace the bytes of a file that others wrote, and keep the mode of the file."""
        mode = self._path(key).stat().st_mode
        is_done = self.put(key, content_of_bytes(data), instead_of=instead_of)
        if is_done:
            self._path(key).chmod(mode & 0o777)
        return is_done

    def page_keys(self, folder: str) -> tuple[str, ...]:
        """Return the key of a folder's page, `index.html`: every web server sends it for the folder."""
        return (f"{folder}{INDEX}",)

    @contextmanager
    def alone(self, root: str = "") -> Iterator[None]:
        """Keep other writers out, and remove the unfinished files of a killed writer."""
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
            raise InputError(f"{key} leads out of {self.root}")
        return self.root / key
