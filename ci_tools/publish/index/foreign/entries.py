"""The files and links on pages of others, as entries of a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.machine.objects.store import content_of_bytes
from ci_tools.publish.index.pages import ADOPTED, Link

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ci_tools.machine.objects.store import Store
    from ci_tools.publish.index.foreign.files import Completed
    from ci_tools.publish.index.foreign.files import Found as OnPages
    from ci_tools.publish.index.manifest import Manifest
    from ci_tools.publish.index.pages import IndexedFile


def store_metadata(store: Store, key: str, completed: Completed) -> Completed:
    """Write the METADATA of a file beside it; if others have written different METADATA there, do not offer it."""
    if (
        completed.file
        and completed.metadata
        and not store.put(key, content_of_bytes(completed.metadata), instead_of=None)
    ):
        read = store.read(key)
        if read is None or read[0] != completed.metadata:
            return completed._replace(file=completed.file._replace(metadata_sha256=""))
    return completed


# ---------------------------------------------------------------- a manifest, and the links of others


def unknown_files(manifest: Manifest, found: OnPages) -> list[IndexedFile]:
    """Return the files that a manifest lacks, except those that one folder cannot list beside a known file."""
    there = {file.key for file in manifest.files.values()}
    return [
        file
        for file in found.files
        if file.key not in there and not any(old.meets(file) for old in manifest.called(file.name))
    ]


def join(
    manifest: Manifest,
    found: OnPages,
    new: Sequence[IndexedFile],
    links: Iterable[Link],
    gone: frozenset[str],
    folders: frozenset[str],
) -> Manifest:
    """Return a manifest with the files and links on pages of others."""
    listing = {file.key: file for file in found.files}
    files = {
        name: _widen_folders(file, listing[file.key], folders) if file.key in listing else file
        for name, file in manifest.files.items()
        if file.key not in gone
    }
    more = manifest._replace(files=files).add_files(unknown_files(manifest, found._replace(files=tuple(new))))
    return more._replace(links=_merge((*manifest.links, *links)))


def _merge(links: Iterable[Link]) -> tuple[Link, ...]:
    """Return each link once, with all the pages that have it."""
    found: dict[tuple[str, str], set[str]] = {}
    for name, at, folders in links:
        found.setdefault((name, at), set()).update(folders)
    return tuple(Link(*key, tuple(sorted(found[key]))) for key in sorted(found))


def _widen_folders(file: IndexedFile, there: IndexedFile, folders: frozenset[str]) -> IndexedFile:
    """Return a file with the folders that listed it before or list it now: another tool may list ours in more."""
    if not (file.only_in or file.folder):
        return file
    if not there.only_in and not there.folder:  # every folder lists it
        everywhere = tuple(sorted({"", *folders, *file.folders}))
        is_theirs = file.origin == ADOPTED
        return file._replace(only_in=(), folder="", at=file.key) if is_theirs else file._replace(only_in=everywhere)
    if all(map(file.is_listed_in, there.folders)):
        return file
    listing = (set(file.only_in) or {file.folder, *file.also}) | (set(there.only_in) or {there.folder})
    is_for_all = not file.folder and listing >= {"", *folders} and "+" not in file.name
    return file._replace(only_in=() if is_for_all else tuple(sorted(listing)))
