"""Ownership of an index: the pages of others that publishing must not touch, and the pages that it changes.

Rule 7 of the design: we are guests. Files and pages of others are never dropped, rewritten or deleted; they are adopted
only on request.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ci_tools.errors import InputError
from ci_tools.index.directory import Directory, Root, announce_folders, folders_of, slash
from ci_tools.index.file_names import FILES
from ci_tools.index.finder import DATA, data_path
from ci_tools.index.foreign.entries import join, removed_files, unknown_files
from ci_tools.index.pages import VARIANTS, is_sealed
from ci_tools.index.units import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.index.ledger import Ledger
    from ci_tools.index.manifest import Manifest
    from ci_tools.index.page_writer import PageWriter

CHANNELS = ("nightly/", "test/")  # separate indexes below a stable one
OWN = ".fatwheel/"
PAGES = (".html", "index.json", "/")


def refuse_others(writer: PageWriter, ledger: Ledger, root: Root | None, after: Manifest) -> None:
    """Raise InputError if publishing would replace pages that others wrote.

    `root` is the owner of the front pages, if the user gives it; `after` is the project's manifest after publishing.
    """
    known = ledger.find_directory()
    if known is None and root in {None, Root.OWN}:
        _refuse_foreign_files(ledger, after)
    elif known and known.root is not Root.OWN and root is Root.OWN:
        address = ledger.store.url(ledger.root)
        msg = f"the front pages of {address} belong to others too: the index was begun with root={known.root.value}"
        raise InputError(msg, hint=f"`{_adopt(ledger)}` takes over what they list; or omit `root=own`")
    directory = announce_folders(known or Directory(), folders_of(after), root)
    if after.project not in directory.projects:
        _refuse_page(writer, ledger, after, directory)
        if directory.root is Root.SHARED:
            _refuse_compression(writer, ledger, directory)


def _refuse_foreign_files(ledger: Ledger, after: Manifest) -> None:
    """Raise InputError if others have an index or listed files here, and we have not begun one."""
    there = list(ledger.store.listed(ledger.root))
    # Read after the listing: another publisher, who begins meanwhile, notes its keys before it puts them.
    ours = ledger.read_staged_keys() | {file.key for file in after.files.values()}
    for key in there:
        place = key.removeprefix(ledger.root)
        if place.startswith((OWN, *CHANNELS)) or place.removesuffix(".metadata") in ours:
            continue
        is_of_index = place.endswith((*FILES, *PAGES)) or place.startswith((f"{DATA}/", f"{VARIANTS}/"))
        if is_of_index and not _is_ours(ledger, key):
            if ledger.find_directory() is not None:  # that publisher has ended, and its notes are gone
                return
            msg = f"{ledger.store.address} has files that Fatwheel did not put there, such as {place}"
            hint = f"`{_adopt(ledger)}` takes over what is listed there; `?root=shared` after the target adds to it"
            raise InputError(msg, hint=hint, page="how-to/adopt-an-index.md")


def _is_ours(ledger: Ledger, key: str) -> bool:
    if not key.endswith(PAGES):
        return key.removeprefix(ledger.root).startswith((f"{DATA}/", f"{VARIANTS}/"))
    read = ledger.store.read(key)
    return read is None or not read[0] or is_sealed(read[0])  # consoles create empty ones to show a folder


def _refuse_page(writer: PageWriter, ledger: Ledger, after: Manifest, directory: Directory) -> None:
    """Raise InputError if others have a page of the project that lists files that are not ours."""
    strangers = list(writer.strangers(ledger, after.project, directory))
    found = writer.find_foreign_files(ledger, after.project, strangers, directory)
    ours = ledger.read_staged_keys() | {file.key for file in after.files.values()}
    theirs = [one.at or one.name for one in found.links]
    theirs += [file.key for file in found.files if file.key not in ours]
    if theirs:
        address = ledger.store.address
        msg = f"others have published {after.project} in {address}: {strangers[0].key} lists {theirs[0]}"
        raise InputError(msg, hint=f"`{_adopt(ledger)} --project {after.project}` takes over what it lists")


def _refuse_compression(writer: PageWriter, ledger: Ledger, directory: Directory) -> None:
    """Raise InputError if a front page of others is compressed: our lines cannot be added to it."""
    for page in writer.fronts(ledger.root, directory):
        for key in page.keys:
            found = ledger.store.find(key)
            if found and found.encoding not in {"", "identity"}:
                msg = f"{ledger.store.url(key)} is compressed ({found.encoding}), expected an uncompressed page"
                raise InputError(msg, hint="`?root=kept` after the target leaves the front pages unchanged")


def _adopt(ledger: Ledger) -> str:
    address, _, settings = ledger.store.address.partition("?")
    target = f"{address}/{ledger.root}".rstrip("/") if ledger.root else address
    return f"fatwheel index adopt {shlex.quote(f'{target}?{settings}' if settings else target)}"


def foresee_others(writer: PageWriter, ledger: Ledger, manifest: Manifest) -> Manifest:
    """Return a manifest with what others have listed since our last change, as far as their pages say it."""
    strangers, directory = writer.others(ledger, manifest.project)
    if not strangers:
        return manifest
    known = frozenset(file.key for file in manifest.files.values())
    found = writer.find_foreign_files(ledger, manifest.project, strangers, directory, known)
    hashed = [file for file in unknown_files(manifest, found) if file.sha256]
    folders = directory.folders | directory.filling
    gone = removed_files(manifest, found, {"", *folders}, lambda key: ledger.store.find(ledger.root + key) is not None)
    return join(manifest, found, hashed, found.links, gone, folders)


# ---------------------------------------------------------------- pages that publishing changes


def page_changes(writer: PageWriter, ledger: Ledger, root: Root | None, manifest: Manifest) -> Iterator[Change]:
    """Yield the pages that a changed manifest changes."""
    known = ledger.directory()
    directory = announce_folders(known, folders_of(manifest) | writer.list_shared_folders(ledger, root), root)
    projects = known.projects | {manifest.project}
    places = {f"{slash(folder)}{manifest.project}/" for folder in {"", *directory.folders, *directory.filling}}
    places |= {f"{folder}/{project}/" for folder in directory.filling for project in projects}
    places.add(data_path(manifest.project))
    for place in sorted(places):
        yield Change("update", ledger.store.url(f"{ledger.root}{place}"))
    if directory.root is not Root.KEPT and (projects != known.projects or directory.filling):
        detail = "one more line; every other byte stays" if directory.root is Root.SHARED else ""
        for place in sorted({"", *(f"{folder}/" for folder in directory.folders | directory.filling)}):
            yield Change("update", ledger.store.url(f"{ledger.root}{place}"), detail)
