"""Reads files of an index completely, and never treats a truncated answer as a damaged file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import FatwheelError, MachineError
from ci_tools.index.directory import Root
from ci_tools.index.foreign.files import METADATA_SUFFIX
from ci_tools.index.foreign.layout import is_page
from ci_tools.index.foreign.pages import projects_on
from ci_tools.index.foreign.strangers import Stranger, lists_files
from ci_tools.index.maintain.flaws import (
    BACK,
    DAMAGED,
    GONE,
    LOST,
    NO_METADATA,
    NOT_ON_IT,
    OTHER_SIZE,
    OTHERS,
    STALE,
    UNREAD,
    IndexFlaw,
)
from ci_tools.index.pages import is_sealed
from ci_tools.machine.storage import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ci_tools.index.directory import Directory
    from ci_tools.index.objects.store import Found
    from ci_tools.index.page_writer import Page
    from ci_tools.index.pages import IndexedFile
    from ci_tools.index.wheel_index import WheelIndex


MAX_UNREAD = 10  # unreadable files in a row: then the store fails, not a file


class Reading(NamedTuple):
    """The content at a key."""

    sha256: str  # empty: nothing is there
    size: int  # bytes


def read_file(index: WheelIndex, key: str, sha256: str) -> Reading:
    """Return the content at a key; if it does not have the expected hash, it is read a second time.

    Raises FatwheelError if the content is uncertain: the store fails, two answers differ, or one does not have the
    length that the store reports.
    """
    first = _read(index, key)
    if first.sha256 == sha256:
        return first
    second = _read(index, key)
    if second.sha256 == sha256:
        return second
    found = index.store.find(key)
    if first != second or (found.size if found else 0) != second.size or bool(found) != bool(second.sha256):
        msg = f"{index.store.url(key)} is different each time it is read"
        raise MachineError(msg, hint="run the same command again once nothing changes it, or the network is stable")
    return second


def _read(index: WheelIndex, key: str) -> Reading:
    try:
        return Reading(*index.sha256_and_size_at(key))
    except OSError as error:
        raise MachineError(f"{index.store.url(key)} cannot be read: {error.strerror or error}") from error


def file_flaws(index: WheelIndex, files: Iterable[IndexedFile]) -> Iterator[IndexFlaw]:
    """Yield the flaws of some files; files on other servers are not read.

    Raises FatwheelError if many in a row cannot be read.
    """
    unread = 0
    for file in (file for file in files if not file.is_outside):
        found = _try(index, file)
        unread = unread + 1 if isinstance(found, FatwheelError) else 0
        if not isinstance(found, FatwheelError):
            yield from found
        elif unread == MAX_UNREAD:
            raise found
        else:
            yield IndexFlaw(file.key, f"{UNREAD}: {found.message}")


def _try(index: WheelIndex, file: IndexedFile) -> tuple[IndexFlaw, ...] | FatwheelError:
    try:
        return tuple(_flaws(index, file))
    except FatwheelError as error:
        return error


def _flaws(index: WheelIndex, file: IndexedFile) -> Iterator[IndexFlaw]:
    read = read_file(index, file.key, file.sha256)
    beside = f"{file.key}{METADATA_SUFFIX}"
    if file.lost:
        yield from _check_lost_file(file, read)
    elif read.sha256 != file.sha256:
        yield IndexFlaw(file.key, DAMAGED if read.sha256 else GONE)
    elif read.size != file.size:
        yield IndexFlaw(file.key, OTHER_SIZE)
    elif file.metadata_sha256 and read_file(index, beside, file.metadata_sha256).sha256 != file.metadata_sha256:
        yield IndexFlaw(beside, NO_METADATA)


def _check_lost_file(file: IndexedFile, read: Reading) -> Iterator[IndexFlaw]:
    """Yield the flaw of an unlisted file: its bytes are back, or still lost; a lost file that is yanked has none."""
    if read.sha256 == file.sha256:
        yield IndexFlaw(file.key, BACK)
    elif file.yanked is None:
        yield IndexFlaw(file.key, LOST.get(file.lost, LOST["gone"]))


def fetch(index: WheelIndex, key: str, folder: Path) -> Path:
    """Download one file of an index into a folder."""
    path = folder / (key.rpartition("/")[2] or "page")
    with write_atomically(path) as sink:
        for chunk in index.store.chunks(key):
            sink.write(chunk)
    return path


# ---------------------------------------------------------------- pages


class PagesLook(NamedTuple):
    """The flaws of pages, and the highest generation of the existing pages."""

    flaws: tuple[IndexFlaw, ...]
    generation: int


def page_flaws(index: WheelIndex, pages: Iterable[Page]) -> PagesLook:
    """Return the flaws of project pages that are not as they should be."""
    read = [(key, page.data, index.store.read(key)) for page in pages for key in page.keys]
    flaws = (_page_flaw(*one) for one in read)
    return PagesLook(tuple(flaw for flaw in flaws if flaw), _highest(found for _, _, found in read))


def _page_flaw(key: str, data: bytes, read: tuple[bytes, Found] | None) -> IndexFlaw | None:
    if read and read[0] == data:
        return None
    is_others = read is not None and is_page(key) and not is_sealed(read[0])
    return IndexFlaw(key, OTHERS if is_others else STALE)


def front_flaws(index: WheelIndex, pages: Iterable[Page], directory: Directory) -> PagesLook:
    """Return the flaws of front pages; for pages of others, our lines that they lack."""
    if directory.root is Root.KEPT:
        return PagesLook((), 0)
    flaws, generation = [], 0
    for page in pages:
        read = {key: index.store.read(key) for key in page.keys}
        has_others = any(found and not is_sealed(found[0]) for found in read.values())
        for key, found in read.items():
            is_theirs = found is None and has_others and directory.root is Root.SHARED  # under another key
            flaws += [] if is_theirs else [_front_flaw(key, page.data, found, directory)]
        generation = max(generation, _highest(read.values()))
    return PagesLook(tuple(flaw for flaw in flaws if flaw), generation)


def _front_flaw(key: str, data: bytes, read: tuple[bytes, Found] | None, directory: Directory) -> IndexFlaw | None:
    if read is None or is_sealed(read[0]):
        return _page_flaw(key, data, read)
    try:
        there = set(projects_on(read[0], key))
        is_theirs = bool(there - directory.projects) or lists_files(Stranger(key, *read))
    except ValueError:  # not a page: our own index does not need it
        return IndexFlaw(key, OTHERS) if directory.root is Root.OWN else None
    if directory.root is Root.OWN and not is_theirs:
        return IndexFlaw(key, OTHERS)
    missing = ", ".join(sorted(directory.projects - there))
    return IndexFlaw(key, f"{NOT_ON_IT} {missing}") if missing else None


def _highest(read: Iterable[tuple[bytes, Found] | None]) -> int:
    return max((found[1].generation for found in read if found), default=0)
