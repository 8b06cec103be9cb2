"""The files of an index, read whole, where an answer that was cut is never taken for a damaged file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import FatwheelError, MachineError
from ci_tools.machine.storage import write_atomically
from ci_tools.publish.index.maintain.flaws import (
    BACK,
    DAMAGED,
    GONE,
    LOST,
    NO_METADATA,
    OTHER_SIZE,
    UNREAD,
    Flaw,
)
from ci_tools.publish.index.wheel_index import METADATA_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ci_tools.publish.index.pages import IndexedFile
    from ci_tools.publish.index.wheel_index import WheelIndex

__all__ = ["Reading", "fetch", "file_flaws", "read_file"]

MOST_UNREAD = 10  # files in a row: the store fails then, and not a file


class Reading(NamedTuple):
    """What lies at a key."""

    sha256: str  # empty: nothing is there
    size: int  # bytes


def read_file(index: WheelIndex, key: str, sha256: str) -> Reading:
    """Return what lies at a key where a file of that hash is expected; anything else is read a second time.

    Raises FatwheelError where that cannot be told: the store fails, two answers differ, or one is not as long as the
    store says the file is.
    """
    first = _read(index, key)
    if first.sha256 == sha256:
        return first
    second = _read(index, key)
    if second.sha256 == sha256:
        return second
    found = index.store.find(key)
    if first != second or (found.size if found else 0) != second.size or bool(found) != bool(second.sha256):
        msg = f"{index.store.url(key)} is another file each time it is read"
        raise MachineError(msg, hint="run the same command again once nothing changes it, or the network is well")
    return second


def _read(index: WheelIndex, key: str) -> Reading:
    try:
        return Reading(*index.sha256_and_size_at(key))
    except OSError as error:
        msg = f"{index.store.url(key)} cannot be read: {error.strerror or error}"
        raise MachineError(msg) from None


def file_flaws(index: WheelIndex, files: Iterable[IndexedFile]) -> Iterator[Flaw]:
    """Yield what is wrong with some files; what lies elsewhere is not read.

    Raises FatwheelError where many in a row cannot be read.
    """
    unread = 0
    for file in (file for file in files if not file.is_outside):
        found = _try(index, file)
        unread = unread + 1 if isinstance(found, FatwheelError) else 0
        if not isinstance(found, FatwheelError):
            yield from found
        elif unread == MOST_UNREAD:
            raise found
        else:
            yield Flaw(file.key, f"{UNREAD}: {found.message}")


def _try(index: WheelIndex, file: IndexedFile) -> tuple[Flaw, ...] | FatwheelError:
    try:
        return tuple(_flaws(index, file))
    except FatwheelError as error:
        return error


def _flaws(index: WheelIndex, file: IndexedFile) -> Iterator[Flaw]:
    read = read_file(index, file.key, file.sha256)
    beside = f"{file.key}{METADATA_SUFFIX}"
    if file.lost:
        yield from _check_lost_file(file, read)
    elif read.sha256 != file.sha256:
        yield Flaw(file.key, DAMAGED if read.sha256 else GONE)
    elif read.size != file.size:
        yield Flaw(file.key, OTHER_SIZE)
    elif file.metadata_sha256 and read_file(index, beside, file.metadata_sha256).sha256 != file.metadata_sha256:
        yield Flaw(beside, NO_METADATA)


def _check_lost_file(file: IndexedFile, read: Reading) -> Iterator[Flaw]:
    """Yield whether a file that no page lists could be listed again; one that is yanked is missed by nobody."""
    if read.sha256 == file.sha256:
        yield Flaw(file.key, BACK)
    elif file.yanked is None:
        yield Flaw(file.key, LOST.get(file.lost, LOST["gone"]))


def fetch(index: WheelIndex, key: str, folder: Path) -> Path:
    """Bring one file of an index here."""
    path = folder / (key.rpartition("/")[2] or "page")
    with write_atomically(path) as sink:
        for chunk in index.store.chunks(key):
            sink.write(chunk)
    return path
