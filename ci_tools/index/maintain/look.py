"""Reads an index again: every file and every page, to compare them with the manifests and name each flaw.

A truncated answer is never taken for a damaged file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import NormalizedName

from ci_tools.errors import FatwheelError, InputError, MachineError, count
from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.files import METADATA_SUFFIX
from ci_tools.index.foreign.layout import is_page
from ci_tools.index.foreign.pages import projects_on
from ci_tools.index.foreign.strangers import Stranger, lists_files
from ci_tools.index.ledger import RESTORE, Damaged, Ledger
from ci_tools.index.maintain.rebuild import directory_from_pages
from ci_tools.index.manifest import Directory, Manifest, Root, folders_of
from ci_tools.index.objects.store import Found
from ci_tools.index.page_writer import Page
from ci_tools.index.pages import VARIANTS, IndexedFile, is_sealed
from ci_tools.index.wheel_index import WheelIndex, keys_of
from ci_tools.machine.storage import write_atomically

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside

MAX_UNREAD = 10  # unreadable files in a row: then the store fails, not a file
GONE = "the file is gone"
DAMAGED = "the file has other bytes than its manifest says"
OTHER_SIZE = "its manifest gives the file another size"
LOST = MappingProxyType(  # by the file's `lost` in the manifest
    {
        "gone": "the file is still gone; no page lists it",
        "damaged": "the file still has other bytes than its manifest says; no page lists it",
    }
)
BACK = "its bytes are back, and no page lists it"
NO_METADATA = "the METADATA beside the file is missing or differs"
UNREAD = "it cannot be read now"  # followed by the reason
STALE = "the page differs from its manifest"
OTHERS = "others wrote the page or added to it, or it is incomplete"
NOT_ON_IT = "the page is shared with others, and does not list"  # followed by the missing items
UNLISTED = "no page lists it: a publisher was interrupted, or is still running"
UNFINISHED = "it lacks a project or a folder: a publisher was interrupted, or is still running"
BROKEN = "it is damaged"  # followed by the reason


class Look(NamedTuple):
    """An index as read: its flaws, and its directory and manifests."""

    flaws: tuple[IndexFlaw, ...]
    directory: Directory  # with every existing project and folder
    manifests: tuple[Manifest, ...]  # the readable ones
    generation: int  # the highest generation of its pages


def verify(index: WheelIndex, outside: Outside) -> tuple[IndexFlaw, ...]:
    """Read every file and every page of an index, and return everything that disagrees with its manifests.

    An unlisted file is a flaw only if one of our publishers noted it before. Raises InputError if there is no index.
    """
    refuse_no_index(index)
    return read(index, outside).flaws


def refuse_no_index(index: WheelIndex) -> None:
    """Raise InputError if no publisher has made an index here: nothing is created, changed or removed then."""
    ledger = Ledger(index.store, "")
    if not ledger.is_there() and not ledger.projects():
        msg = f"there is no index at {index.address}, expected {index.store.url(ledger.directory_key)}"
        raise InputError(msg, hint="name it as `fatwheel publish --to` does, or its nightly or test folder")


def read(index: WheelIndex, outside: Outside) -> Look:
    """Read an index, and report the result to the user."""
    with outside.reporter.step(f"read {index.address}") as step:
        look = look_at(index)
        verdict = count(len(look.flaws), "flaw") if look.flaws else "no flaws"
        step.result("; ".join(filter(None, (verdict, _foreign(look.manifests)))))
    return look


def _foreign(manifests: Iterable[Manifest]) -> str:
    """Return how many files Fatwheel did not build, by their origin."""
    origins = [file.origin for manifest in manifests for file in manifest.files.values() if file.origin]
    counts = [f"{origins.count(origin)} {origin}" for origin in sorted(set(origins))]
    return f"not built by Fatwheel: {', '.join(counts)}" if counts else ""


def look_at(index: WheelIndex, only: AbstractSet[str] | None = None) -> Look:
    """Read an index; with `only`, of its files just those at some keys.

    If a manifest is damaged, its files are unknown, so that no file is reported as unlisted.
    """
    ledger = Ledger(index.store, "")
    known, flaws = inspect_directory(index, ledger)
    found = [_manifest(ledger, project) for project in sorted(known.projects)]
    manifests = tuple(one for one in found if not isinstance(one, IndexFlaw))
    folders = known.folders.union(known.filling, *map(folders_of, manifests))
    directory = known._replace(folders=folders, filling=frozenset())
    if directory != known and not flaws:
        flaws.append(IndexFlaw(ledger.directory_key, UNFINISHED))
    flaws += (one for one in found if isinstance(one, IndexFlaw))
    is_known = not any(flaw.what.startswith(BROKEN) for flaw in flaws)
    files = [file for manifest in manifests for file in manifest.files.values()]
    flaws += file_flaws(index, (file for file in files if only is None or only & keys_of(file)))
    pages = [page for one in manifests for page in index.writer.pages(ledger, one, directory.folders, directory.root)]
    fronts = tuple(index.writer.fronts("", directory))
    looks = (page_flaws(index, pages), front_flaws(index, fronts, directory))
    named = {key for page in (*pages, *fronts) for key in page.keys}.union(*map(keys_of, files))
    flaws += (flaw for look in looks for flaw in look.flaws)
    flaws += leftovers(ledger, named) if is_known else ()
    return Look(tuple(flaws), directory, manifests, max(look.generation for look in looks))


def inspect_directory(index: WheelIndex, ledger: Ledger) -> tuple[Directory, list[IndexFlaw]]:
    """Return the directory, rebuilt if lost or damaged, with its missing projects added; and its flaws."""
    flaws, is_there = [], ledger.is_there()
    try:
        known = _directory(index, ledger) if is_there else directory_from_pages(index)
    except Damaged as error:
        flaws = [IndexFlaw(error.key, f"{BROKEN}: {error.why}")]
        known = directory_from_pages(index)
    missing = ledger.projects() - known.projects
    if (missing or not is_there) and not flaws:
        flaws = [IndexFlaw(ledger.directory_key, UNFINISHED)]
    return known._replace(projects=known.projects | missing), flaws


def _directory(index: WheelIndex, ledger: Ledger) -> Directory:
    """Return the directory; raise Damaged if two reads show damage, since one answer may be truncated."""
    with suppress(Damaged):
        return ledger.directory()
    read_file(index, ledger.directory_key, "?")
    return ledger.directory()


def manifest_of(ledger: Ledger, project: NormalizedName) -> Manifest:
    """Return the manifest of a project that the index is known to have; raise Damaged if it cannot be read."""
    key = ledger.manifest_key(project)
    if ledger.store.find(key) is None:  # whether or not the directory has the project: it may be lost too
        raise Damaged(ledger.store, key, "it is gone", hint=RESTORE)
    return ledger.manifest(project)


def _manifest(ledger: Ledger, project: NormalizedName) -> Manifest | IndexFlaw:
    """Return the manifest of a project, or a flaw if it cannot be read."""
    try:
        return manifest_of(ledger, project)
    except Damaged as error:
        return IndexFlaw(error.key, f"{BROKEN}: {error.why}")


# ---------------------------------------------------------------- files that no manifest names


def leftovers(ledger: Ledger, named: AbstractSet[str]) -> Iterator[IndexFlaw]:
    """Yield a flaw for every noted file that exists and is not in a manifest; any other unlisted file is of others.

    This includes a file that was at a noted key before the note: the publisher then puts its own file elsewhere.
    """
    noted = _read_note_times(ledger)
    keys = sorted(key for key in noted.keys() - named if _is_publishers(key) and ledger.store.find(key))
    times = {entry.key: entry.modified for entry in ledger.store.entries()} if keys else {}
    yield from (IndexFlaw(key, UNLISTED) for key in keys if times.get(key, "") >= noted[key])


def _read_note_times(ledger: Ledger) -> dict[str, str]:
    """Return the noted keys, and those of METADATA beside them, each with the time of its first note."""
    found: dict[str, str] = {}
    for entry in sorted(ledger.store.entries(ledger.notes), key=lambda entry: entry.modified):
        for key in ledger.read_note(entry.key):
            found.setdefault(key, entry.modified)
            found.setdefault(f"{key}{METADATA_SUFFIX}", entry.modified)
    return found


def _is_publishers(key: str) -> bool:
    """Whether publishers make files of such a name: wheels, sdists, their METADATA, documents of variants."""
    folder, _, name = key.removesuffix(METADATA_SUFFIX).rpartition("/")
    try:
        return bool(project_and_version(name))
    except ValueError:
        return folder == VARIANTS and name.endswith("-variants.json")


def forget_notes(index: WheelIndex, look: Look) -> None:
    """Remove the notes whose files are all gone or listed; none while a manifest is damaged, since it may list them."""
    if any(flaw.what.startswith(BROKEN) for flaw in look.flaws):
        return
    ledger = Ledger(index.store, "")
    named = {key for one in look.manifests for file in one.files.values() for key in keys_of(file)}
    left = {flaw.key for flaw in leftovers(ledger, named)}
    for note in tuple(index.store.listed(ledger.notes)):
        keys = ledger.read_note(note)
        if keys and keys.isdisjoint(left):
            index.store.remove(note)


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


class IndexFlaw(NamedTuple):
    """A part of an index that disagrees with its manifests, and how it was repaired."""

    key: str
    what: str
    done: str = ""
    is_left: bool = False  # whether it could not be repaired
