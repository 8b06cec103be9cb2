"""What others have in an index: the pages that publishing must not touch or changes, and their files as entries.

Rule 7 of the design: we are guests. Files and pages of others are never dropped, rewritten or deleted; they are adopted
only on request.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from ci_tools.errors import InputError
from ci_tools.index.file_names import FILES
from ci_tools.index.finder.data import DATA, data_path
from ci_tools.index.foreign.files import Completed
from ci_tools.index.foreign.files import ForeignLinks as OnPages
from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import Directory, Manifest, Root, announce_folders, folders_of, slash
from ci_tools.index.objects.store import Store, content_of_bytes
from ci_tools.index.pages import ADOPTED, VARIANTS, IndexedFile, Link, is_sealed
from ci_tools.index.units import Change

if TYPE_CHECKING:
    from ci_tools.index.page_writer import PageWriter

CHANNELS = ("nightly/", "test/")  # separate indexes below a stable one
OWN = ".fatwheel/"
PAGES = (".html", "index.json", "/")
_Entry = TypeVar("_Entry", IndexedFile, Link)


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


def store_metadata(store: Store, key: str, completed: Completed) -> Completed:
    """Write the METADATA of a file beside it; if others have written different METADATA there, do not offer it."""
    file, metadata = completed.file, completed.metadata
    if file and metadata and not store.put(key, content_of_bytes(metadata), instead_of=None):
        read = store.read(key)
        if read is None or read[0] != metadata:
            return completed._replace(file=file._replace(metadata_sha256=""))
    return completed


# ---------------------------------------------------------------- a manifest, and the links of others


def unknown_files(manifest: Manifest, found: OnPages) -> list[IndexedFile]:
    """Return the files that a manifest lacks, or has with other bytes, which only their owner may have replaced.

    Copies of our files that are listed in the same folders are left out.
    """
    there = {file.key: file for file in manifest.files.values()}
    return [
        file
        for file in found.files
        if file.key not in there or _is_replaced(there[file.key], file)
        if not any(_is_copy(file, old) for old in manifest.called(file.name))
    ]


def _is_replaced(old: IndexedFile, new: IndexedFile) -> bool:
    return old.origin == ADOPTED and new.sha256 not in {"", old.sha256}


def _is_copy(file: IndexedFile, old: IndexedFile) -> bool:
    is_everywhere = bool(file.only_in or file.folder) or not (old.only_in or old.folder)
    is_same = bool(file.sha256) and file.sha256 == old.sha256 and old.origin != ADOPTED
    return is_same and is_everywhere and all(map(old.is_listed_in, file.folders))


def _is_named(link: Link, manifest: Manifest) -> bool:
    """Return whether a link has no hash, and one of our files has its name in each of its folders."""
    ours = (old for old in manifest.called(link.name) if old.origin != ADOPTED)
    is_hashed = bool(link.sha256 or link.hashes)
    return not is_hashed and any(all(map(old.is_listed_in, link.only_in)) for old in ours)


def removed_files(
    manifest: Manifest, found: OnPages, folders: Iterable[str], is_there: Callable[[str], bool]
) -> frozenset[str]:
    """Return the keys of what was taken in once, and is neither on the pages of some folders nor there any more."""
    listed = {*(file.key for file in found.files), *(link.at for link in found.links)}
    places = {file.key: file.is_listed_in for file in manifest.files.values() if file.origin == ADOPTED}
    places.update((link.at, link.is_listed_in) for link in manifest.links)
    inside = (key for key in places if key not in listed and "://" not in key and not key.startswith(("../", "/")))
    return frozenset(key for key in inside if any(map(places[key], folders)) and not is_there(key))


def join(
    manifest: Manifest,
    found: OnPages,
    new: Sequence[IndexedFile],
    links: Iterable[Link],
    gone: frozenset[str],
    folders: frozenset[str],
) -> Manifest:
    """Return a manifest with the files and links on pages of others.

    A yank on such a page is taken over. None is taken back: their tools do not know our yanks.
    """
    listing = {file.key: file for file in found.files}
    files = {
        name: _join_facts(file, listing[file.key], folders) if file.key in listing else file
        for name, file in manifest.files.items()
        if file.key not in gone
    }
    kept = (link for link in manifest.links if link.at not in gone)
    links = _merge((*kept, *(link for link in links if not _is_named(link, manifest))))
    were = {(link.name, link.at): link for link in links}
    unknown = unknown_files(manifest._replace(files=files), found._replace(files=tuple(new)))
    more = manifest._replace(files=files).add_files(
        _join_link(file, were[file.name, file.key], folders) if (file.name, file.key) in were else file
        for file in unknown
    )
    hashed = {(file.name, file.key) for file in unknown}
    return more._replace(links=tuple(link for link in links if (link.name, link.at) not in hashed))


def _merge(links: Iterable[Link]) -> tuple[Link, ...]:
    """Return each link once, with all the pages that have it; twice, if two pages contradict each other about it."""
    found: dict[tuple[str, str], list[Link]] = {}
    for link in links:
        there = found.setdefault((link.name, link.at), [])
        place = next((place for place, one in enumerate(there) if _is_same(one, link)), None)
        if place is None:
            there.append(link)
        else:
            there[place] = _with_yank(there[place], link)._replace(
                only_in=tuple(sorted({*there[place].only_in, *link.only_in}))
            )
    return tuple(link for key in sorted(found) for link in sorted(found[key]))


def _is_same(one: Link, other: Link) -> bool:
    """Return whether two links are one: a page that both are on knows less of it than we do, or the same."""
    unmarked = (link._replace(only_in=(), rank=0, yanked=None, retracted=False, before=None) for link in (one, other))
    is_marked_alike = one.yanked == other.yanked or one.yanked is not None
    return not set(one.only_in).isdisjoint(other.only_in) or (len({*unmarked}) == 1 and is_marked_alike)


def _with_yank(one: _Entry, other: IndexedFile | Link) -> _Entry:
    return one._replace(yanked=other.yanked) if one.yanked is None and other.yanked is not None else one


def _join_link(file: IndexedFile, link: Link, folders: frozenset[str]) -> IndexedFile:
    """Return a file that could not be hashed until now, wherever its link was."""
    there = file._replace(only_in=link.only_in, folder="")
    if link.yanked is not None:
        file = file._replace(yanked=link.yanked, retracted=link.retracted, before=link.before)
    return _widen_folders(file, there, folders)


def _join_facts(file: IndexedFile, there: IndexedFile, folders: frozenset[str]) -> IndexedFile:
    """Return a file with what a page of others says of it by now: its yank, and the folders that list it."""
    return _widen_folders(_with_yank(file, there), there, folders)


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
