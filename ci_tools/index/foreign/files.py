"""Reads what pages of others list: their links, merged for each project, as files of a manifest with all they need.

No link is dropped. A link stays a plain link if it is not to a wheel or sdist of the project, or if no hash can be
computed. Pages that contradict each other about one address, in a hash or a yank, each keep what they say: it is a
plain link then, one for each of them.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple
from urllib.parse import unquote

from packaging.utils import NormalizedName, canonicalize_name

from ci_tools.catalog.accelerators import FOLDER
from ci_tools.errors import InputError
from ci_tools.formats.wheel import explain_headers, read_headers
from ci_tools.index.file_names import project_and_version, variant_label, version_of
from ci_tools.index.foreign.pages import Listed
from ci_tools.index.objects.store import Entry, Store
from ci_tools.index.pages import ADOPTED, ROOT, IndexedFile, Link
from ci_tools.machine.http.client import AS_IT_IS, PIECE, open_session
from ci_tools.machine.http.policy import TIMEOUT, TooLarge
from ci_tools.machine.http.ranges import TAIL, RangedFile
from ci_tools.model.versions import read_version

METADATA_SUFFIX = ".metadata"  # PEP 658
MAX_METADATA = 16 << 20  # bytes
MAX_READ = 64 << 20  # bytes read of a wheel for its METADATA
PAGES = ("", "index.html", "index.json")  # the possible names of a page in its folder
CHECKED = {name for name in hashlib.algorithms_available if not name.startswith("shake")}  # those have any length
SHARED = frozenset(Link._fields) & frozenset(IndexedFile._fields) - {"at", "only_in"}
WEB_PAGES = (".html", ".htm")  # pages for people


class Completed(NamedTuple):
    """A file with every fact that could be found, or else a plain link to it, and the METADATA to put beside it."""

    file: IndexedFile | None
    link: Link | None = None
    why: str = ""  # it stays a link
    metadata: bytes = b""  # METADATA that is not in the store yet
    read: int = 0  # bytes that were read to complete it


def resolve(at: str, base: str, is_there: Callable[[str], bool]) -> str:
    """Return the target of a link, as a key if it is in the index.

    `base` is the address of the index. A link that begins with a slash starts with a mount point that only its server
    knows: the key is its longest end that exists.
    """
    if at.startswith(base):
        key = posixpath.normpath(unquote(at.removeprefix(base).partition("?")[0]))
        return key if key.isprintable() and not key.startswith(("/", "../")) else at
    if not at.startswith("/"):
        return at
    parts = at.strip("/").split("/")
    keys = ("/".join(parts[start:]) for start in range(len(parts)))
    return next((key for key in keys if is_there(key)), at)


# ---------------------------------------------------------------- facts that the pages lack


def complete(
    file: IndexedFile, store: Store, root: str, entry: Entry | None, metadata: Entry | None, folders: Iterable[str] = ()
) -> Completed:
    """Return a file with the facts that its pages lack; `entry` and `metadata` are the listing's entries of both files.

    `folders` are all that list a file for every folder. Raises MachineError if the store fails.
    """
    key, read = f"{root}{file.key}", 0
    if entry:
        file = file._replace(size=entry.size, uploaded=file.uploaded or entry.modified)
    if not file.sha256:
        hashes, read = _hash(store, root, file)
        why = _refusal(file, hashes)
        if why:
            return Completed(None, link_of(file, folders), why)
        others = tuple(pair for pair in file.hashes if pair[0] != "sha256")
        file = file._replace(sha256=hashes["sha256"], size=read, hashes=others)
    if not file.name.endswith(".whl") or file.is_outside or entry is None:
        return Completed(file, read=read)
    if metadata and file.metadata_sha256 and file.requires_python:
        return Completed(file, read=read)
    found = store.read(f"{key}{METADATA_SUFFIX}") if metadata and metadata.size <= MAX_METADATA else None
    content = found[0] if found else b"" if metadata else _metadata_in(store, key, entry.size)
    if not is_metadata_of(file.name, content):  # the METADATA of others stays, but is not offered
        return Completed(file._replace(metadata_sha256=""), read=read)
    file = file._replace(
        metadata_sha256=hashlib.sha256(content).hexdigest(),
        requires_python=file.requires_python or requires_python_in(content),
        said=tuple(pair for pair in file.said if pair[0] != "core-metadata"),
    )
    return Completed(file, metadata=b"" if found else content, read=read + len(content))


def link_of(file: IndexedFile, folders: Iterable[str] = ()) -> Link:
    """Return a file as a plain link with all that its pages say; `folders` are all that list a file for every one."""
    listing = file.only_in or tuple(sorted({*file.folders, *(folders if not file.folder else ())}))
    return Link(only_in=listing, at=file.key, **{name: getattr(file, name) for name in SHARED})


def explain_link(file: IndexedFile) -> str:
    """Return why a file that cannot be read stays a link."""
    hashes = " and ".join(name for name, _ in file.hashes)
    which = f"with the {hashes} of its page" if hashes else "without one"
    return f"it cannot be fetched for its hash: it stays a link {which}"


def _refusal(file: IndexedFile, hashes: Mapping[str, str]) -> str:
    """Return why a file stays a link; "" if it was read and is what its pages say."""
    if not hashes:
        return explain_link(file)
    wrong = next((name for name, value in file.hashes if hashes.get(name, value) != value), "")
    return f"its bytes do not have the {wrong} of its page: installers refuse it, and it stays a link" if wrong else ""


def requires_python_in(metadata: bytes) -> str:
    """Return the Requires-Python of METADATA; "" if it has none."""
    return str(read_headers(metadata.decode(errors="replace"), "METADATA").get("Requires-Python", "")).strip()


def is_metadata_of(name: str, content: bytes) -> bool:
    """Return whether METADATA belongs to a wheel of that name: installers refuse any other."""
    said = content.decode(errors="replace")
    if not content or explain_headers(said):
        return False
    fields = read_headers(said, name)
    project, version = project_and_version(name)
    return canonicalize_name(str(fields["Name"])) == project and read_version(str(fields["Version"])) == version


def _hash(store: Store, root: str, file: IndexedFile) -> tuple[dict[str, str], int]:
    """Return the sha256 and size of a file's bytes, with those hashes that its pages give; {} if it cannot be read."""
    names = {"sha256", *(name for name, _ in file.hashes)} & CHECKED
    digests, size = {name: hashlib.new(name, usedforsecurity=False) for name in names}, 0
    try:
        for chunk in _chunks(store, root, file):
            for digest in digests.values():
                digest.update(chunk)
            size += len(chunk)
    except (InputError, OSError):  # no permission, or the connection broke: it stays a link
        if not file.is_outside:
            raise
        return {}, size
    return ({name: digest.hexdigest() for name, digest in digests.items()} if size else {}), size


def _chunks(store: Store, root: str, file: IndexedFile) -> Iterator[bytes]:
    if not file.is_outside:
        yield from store.chunks(f"{root}{file.key}")
    elif "://" in file.at:
        yield from _fetch_bytes(file.at)
    elif file.at.startswith("../"):
        yield from store.outside(posixpath.normpath(f"{root}{file.at}"))


def _fetch_bytes(address: str) -> Iterator[bytes]:
    """Yield the content at an address of another server; nothing if it refuses; OSError if the connection breaks."""
    # In one answer: a server that sends no whole file vouches for none.
    with open_session() as session, session.get(address, stream=True, timeout=TIMEOUT, headers=AS_IT_IS) as answer:
        if answer.ok:
            yield from answer.iter_content(PIECE)


class _StoredWheel(RangedFile):
    """A wheel in a store, of which only the requested parts are read."""

    def __init__(self, store: Store, key: str, size: int) -> None:
        self.store, self.key = store, key
        super().__init__(size, store.part(key, -min(TAIL, size), TAIL) if size else b"", MAX_READ)

    def fetch(self, position: int, view: memoryview) -> None:
        """Fill `view` with the bytes from a position on; raise ValueError if the store has fewer."""
        view[:] = self.store.part(self.key, position, len(view))


def list_members(store: Store, key: str, size: int) -> dict[str, tuple[int, int]]:
    """Return the size and checksum of each file in a stored wheel, reading only its end; empty if it is unreadable."""
    try:
        with closing(_StoredWheel(store, key, size)) as file, zipfile.ZipFile(io.BufferedReader(file, TAIL)) as archive:
            return {one.filename: (one.file_size, one.CRC) for one in archive.infolist()}
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return {}


def _metadata_in(store: Store, key: str, size: int) -> bytes:
    """Return the METADATA of a wheel, reading only its end and that member; b"" if it has none."""
    try:
        with closing(_StoredWheel(store, key, size)) as file, zipfile.ZipFile(io.BufferedReader(file, TAIL)) as archive:
            names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            member = next((name for name in names if name.count("/") == 1), "")
            if not member or archive.getinfo(member).file_size > MAX_METADATA:
                return b""
            return archive.read(member)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, RuntimeError, TooLarge):
        return b""


class ForeignLinks(NamedTuple):
    """The links on the pages of one project: files, some with missing facts, and other links."""

    files: tuple[IndexedFile, ...]
    links: tuple[Link, ...]


class _Entry(NamedTuple):
    """What some pages say of an address, and the folders of these pages."""

    said: Listed
    folders: frozenset[str]


def merge_listings(
    project: NormalizedName, pages: Mapping[str, Iterable[Listed]], folders: Collection[str]
) -> ForeignLinks:
    """Return the files and links on a project's pages, given by the folder of their index; `folders` are all folders.

    A file that every folder lists is for every folder, including future ones, unless it has an accelerator's version.
    """
    entries = _group_by_address(pages)
    counts = Counter(entry.said.at for entry in entries)
    listed = Counter((folder, entry.said.name) for entry in entries for folder in entry.folders)
    has_twins = any(count > 1 for count in listed.values())  # some page lists two files of one name
    ranks = rank_names(project, [entry.said.name for entry in entries], twins=has_twins)
    files, others = [], []
    for entry, rank in zip(entries, ranks, strict=True):
        said, listing = entry
        if counts[said.at] == 1 and is_file_of(project, said.name):
            files.append(_file(said, listing, folders)._replace(rank=rank))
        elif not said.at.endswith("/") and "." in said.name.strip(".") and not said.name.endswith(WEB_PAGES):
            others.append(Link(only_in=tuple(sorted(listing)), rank=rank, **said._asdict()))
    return ForeignLinks(tuple(files), tuple(others))


def _group_by_address(pages: Mapping[str, Iterable[Listed]]) -> list[_Entry]:
    """Return the facts about each address, once if all pages agree, in the order of the pages."""
    found: dict[str, list[_Entry]] = {}
    for folder, links in sorted(pages.items(), key=lambda page: page[0] != ROOT):  # the root lists most of them
        for link in links:
            known = found.setdefault(link.at, [])
            place = next((place for place, entry in enumerate(known) if _agree(entry, link, folder)), None)
            if place is None:
                known.append(_Entry(link, frozenset({folder})))
            else:
                known[place] = _Entry(_merge(known[place].said, link), known[place].folders | {folder})
    return [entry for entries in found.values() for entry in entries]


def _agree(entry: _Entry, link: Listed, folder: str) -> bool:
    """Return whether two pages say the same; those of one folder, HTML and JSON, need not both have a yank."""
    hashes, more = (dict([("sha256", one.sha256), *one.hashes]) for one in (entry.said, link))
    is_same_file = not any(value and more.get(name, "") not in {"", value} for name, value in hashes.items())
    return is_same_file and (entry.said.yanked == link.yanked or folder in entry.folders)


def _merge(one: Listed, other: Listed) -> Listed:
    """Return the facts that two pages give of a link; the first page that gives a fact is right.

    Where only one of them has the sha256 and the other another hash, nobody has said that both are of one file: the
    sha256 waits among the others until the bytes are read.
    """
    said = other._asdict()
    missing = {name: said[name] for name, value in one._asdict().items() if not value and name != "yanked"}
    whole = one._replace(**missing, yanked=other.yanked if one.yanked is None else one.yanked)
    hashes = {**dict(other.hashes), **dict(one.hashes)}
    if bool(one.sha256) != bool(other.sha256) and (one.hashes if other.sha256 else other.hashes):
        whole, hashes = whole._replace(sha256=""), {**hashes, "sha256": whole.sha256}
    return whole._replace(
        hashes=tuple(sorted(hashes.items())), said=tuple(sorted({**dict(other.said), **dict(one.said)}.items()))
    )


def rank_names(project: str, names: Sequence[str], *, twins: bool = False) -> Iterator[int]:
    """Yield the rank of each name of a page: 0 where those of its version stand in their own order already.

    With `twins`, which one page lists, files of one name get ranks too: one of them may stay a link.
    """
    versions = [version_of(name, project) for name in names]
    found: dict[object, list[str]] = {}
    for version, name in zip(versions, names, strict=True):
        found.setdefault(version, []).append(name)
    orders = ((version, sorted({*theirs} if twins else theirs)) for version, theirs in found.items() if version)
    unsorted = {version for version, order in orders if found[version] != order}
    ranks = Counter[object]()
    for version in versions:
        ranks[version] += 1
        yield ranks[version] if version in unsorted else 0


def is_file_of(project: NormalizedName, name: str) -> bool:
    """Return whether a manifest can have a file; not a wheel variant, whose properties are not on pages of others."""
    try:
        return project_and_version(name)[0] == project and not variant_label(name)
    except ValueError:
        return False


def _file(link: Listed, listing: frozenset[str], folders: Collection[str]) -> IndexedFile:
    inside = not ("://" in link.at or link.at.startswith(("../", "/")))
    first = link.at.partition("/")[0] if inside and "/" in link.at else ""
    folder = first if FOLDER.fullmatch(first) else ROOT
    is_for_all = not folder and listing >= {ROOT, *folders} and project_and_version(link.name)[1].local is None
    by_rule = is_for_all or (folder and listing == {folder})
    usual = f"{folder}/{link.name}" if folder else link.name
    return IndexedFile(
        name=link.name,
        folder=folder,
        sha256=link.sha256,
        size=link.size,
        uploaded=link.uploaded,
        requires_python=link.requires_python,
        metadata_sha256=link.metadata_sha256,
        yanked=link.yanked,
        hashes=link.hashes,
        said=link.said,
        at="" if link.at == usual else link.at,
        only_in=() if by_rule else tuple(sorted(listing)),
        origin=ADOPTED,
    )
