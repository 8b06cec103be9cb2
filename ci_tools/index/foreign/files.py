"""Converts the links on pages of others to files of a manifest, and adds missing hashes, sizes and METADATA.

No link is dropped. A link stays a plain link if it is not to a wheel or sdist of the project, or if no hash can be
computed.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import zipfile
import zlib
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from packaging.utils import canonicalize_name

from ci_tools.errors import InputError
from ci_tools.formats.wheel import explain_headers, read_headers
from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.listings import merge_listings as merge_listings  # noqa: PLC0414 - also known by this module
from ci_tools.index.pages import IndexedFile, Link
from ci_tools.machine.http.client import AS_IT_IS, PIECE, open_session
from ci_tools.machine.http.faults import TooLarge
from ci_tools.machine.http.policy import TIMEOUT
from ci_tools.machine.http.ranges import TAIL, RangedFile
from ci_tools.model.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ci_tools.index.objects.store import Entry, Store

METADATA_SUFFIX = ".metadata"  # PEP 658
MAX_METADATA = 16 << 20  # bytes
MAX_READ = 64 << 20  # bytes read of a wheel for its METADATA
PAGES = ("", "index.html", "index.json")  # the possible names of a page in its folder
CHECKED = {name for name in hashlib.algorithms_available if not name.startswith("shake")}  # those have any length
SHARED = frozenset(Link._fields) & frozenset(IndexedFile._fields) - {"at", "only_in"}


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
