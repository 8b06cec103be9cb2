"""Writes the pages of an index in a store from its manifests, and never over files of others.

A page that ends in our seal is ours. Any other page is read before ours replaces it, and its links join the manifest
first: another tool may write the same page at any moment, so each page is replaced on the condition that it is still
the one that was read. The front pages are either ours as well, or shared, where our lines are added and every other
byte stays, or others' (`Root`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from typing import NamedTuple, TypeVar

from packaging.utils import NormalizedName

from ci_tools import catalog
from ci_tools.catalog.accelerators import FOLDER
from ci_tools.errors import count
from ci_tools.index import pages as index
from ci_tools.index import variants
from ci_tools.index.finder.data import data_path, project_data
from ci_tools.index.finder.page import front_page
from ci_tools.index.finder.shelf import read_newest, shelf_of
from ci_tools.index.foreign.files import METADATA_SUFFIX, Completed, ForeignLinks, complete, merge_listings, resolve
from ci_tools.index.foreign.guests import join, removed_files, store_metadata, unknown_files
from ci_tools.index.foreign.pages import Listed, add_projects, read_links
from ci_tools.index.foreign.strangers import Stranger, lists_more, stranger_in
from ci_tools.index.ledger import Ledger, contention_error
from ci_tools.index.manifest import (
    GENERIC,
    Directory,
    Manifest,
    Root,
    activate_folders,
    announce_folders,
    covers,
    folders_of,
    slash,
)
from ci_tools.index.objects.store import Content, Entry, Found, Store, content_of_bytes
from ci_tools.index.pages import VARIANTS, IndexedFile, Link
from ci_tools.machine.http.policy import CONTENTION

WORKERS = 16  # concurrent requests: each mostly waits for the server
TITLES = {"nightly": "Nightly wheels", "test": "Wheels to try before their release"}  # by the last folder

_T = TypeVar("_T")
_R = TypeVar("_R")


class Page(NamedTuple):
    """A page, its keys in the store, and the generation of its manifest or directory."""

    keys: tuple[str, ...]
    data: bytes
    generation: int
    is_read: bool = True  # whether installers read it, so that others may have a page at its key


def map_concurrently(work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
    """Yield the results of items in their order, several computed at once; after an error no other item is started."""
    with ThreadPoolExecutor(WORKERS) as pool:
        try:
            yield from pool.map(work, items)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class PageWriter:
    """Writes the pages of the indexes in a store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.taken: set[tuple[str, str]] = set()  # key and tag of pages of others whose links are in a manifest by now

    # -- all pages

    def show(
        self, ledger: Ledger, manifests: Sequence[Manifest], root: Root | None = None, folders: Iterable[str] = ()
    ) -> None:
        """Write the pages of some projects, and the front pages.

        `root` is the new owner of the front pages; `folders` get pages besides those that a file needs.

        A new folder is first announced as filling, so that every writer writes its pages there as well; it becomes
        active once every project has one.
        """
        shown, needed = set(), {*folders, *self.list_shared_folders(ledger, root)}
        for manifest in manifests:
            shown.add(manifest.project)
            needed |= folders_of(manifest)
        directory, basis = ledger.change_directory(lambda known: announce_folders(known, needed, root)), None
        while basis is None or not covers(basis, directory, shown):
            basis = directory
            # By number: the manifests of a large index do not all fit into memory.
            by_number = partial(self._show_nth_project, ledger, manifests, basis)
            deque(map_concurrently(by_number, range(len(manifests))), maxlen=0)
            others = sorted(basis.projects - shown) if basis.filling else ()
            deque(map_concurrently(partial(self._fill, ledger, basis), others), maxlen=0)
            directory = ledger.change_directory(partial(activate_folders, basis=basis, projects=shown))
        written = -1
        while written < directory.generation:  # as `_show_project` does it
            self.show_fronts(ledger.root, directory)
            written, directory = directory.generation, ledger.directory()

    def _show_nth_project(self, ledger: Ledger, manifests: Sequence[Manifest], basis: Directory, number: int) -> None:
        self._show_project(ledger, manifests[number], basis)

    def _fill(self, ledger: Ledger, basis: Directory, project: NormalizedName) -> None:
        """Write a project's pages in the new folders."""
        self._show_project(ledger, ledger.manifest(project), basis, only=basis.filling)

    def list_shared_folders(self, ledger: Ledger, root: Root | None) -> set[str]:
        """Return the accelerator folders of others beside ours: a file for every folder is listed in these too."""
        if (root or ledger.directory().root) is Root.OWN:
            return set()
        there = self.store.folders(ledger.root)
        return {name for name in there if name and name != VARIANTS and FOLDER.fullmatch(name)}

    # -- one project's pages

    def _show_project(
        self, ledger: Ledger, manifest: Manifest, directory: Directory, only: Iterable[str] | None = None
    ) -> None:
        """Write a project's pages, and repeat that if its manifest has a newer generation by then.

        A bucket's tag (ETag) depends only on the bytes. If a newer page has exactly the bytes that this writer read, it
        has their tag as well, and is overwritten. This is repaired, since its writer had changed the manifest before.
        """
        folders = directory.folders | directory.filling if only is None else frozenset(only)
        strangers = self._write(self.pages(ledger, manifest, folders, directory.root))
        written = -1 if strangers else manifest.generation
        manifest = self.take_in(ledger, manifest, strangers, directory) if strangers else ledger.newest(manifest)
        while written < manifest.generation:
            before = manifest.generation
            for page in self.pages(ledger, manifest, folders, directory.root):
                manifest = self._write_over(ledger, manifest, page, directory)
                if manifest.generation > before:
                    break
            else:
                written, manifest = before, ledger.newest(manifest)

    def _write_over(self, ledger: Ledger, manifest: Manifest, page: Page, directory: Directory) -> Manifest:
        """Write a page over one of others after taking in its links; return the manifest, which may be newer.

        Another tool may write this page continually, so only this page is read before ours replaces it.
        """
        for _ in range(CONTENTION.tries):
            strangers = self._write([page])
            if not strangers:
                return manifest
            after = self.take_in(ledger, manifest, strangers, directory)
            if after.generation > manifest.generation:
                return after
        raise contention_error(self.store, page.keys[0])

    def pages(
        self, ledger: Ledger, manifest: Manifest, folders: Iterable[str], whose: Root | None = None
    ) -> Iterator[Page]:
        """Yield a project's page in each of some folders and at the root, and its data for the finder.

        If the root is not only ours, there is no JSON: pytorch/test-infra's index script treats every `.json` in an
        accelerator's folder as a file, and that file's folder as an index (s3_management/manage.py).
        """
        root, rows = ledger.root, index.spell(manifest.files.values(), manifest.links, manifest.project)
        is_own = (whose or ledger.directory().root) is Root.OWN
        for folder in sorted({"", *folders}):
            listed = [row for row in rows if _is_listed(row.file, folder)]
            place = f"{root}{slash(folder)}{manifest.project}/"
            beside = variants.documents(manifest) if folder == VARIANTS else {}
            for name, data in beside.items():  # before the page that links to them
                yield Page((f"{root}{folder}/{name}",), data, manifest.generation, is_read=False)
            page = index.html_of(manifest.project, listed, beside, folder)
            yield Page(self.store.page_keys(place), page, manifest.generation)
            if is_own:
                document = index.json_of(manifest.project, listed, beside, folder)
                yield Page((f"{place}index.json",), document, manifest.generation)
        if is_own:
            yield self._finder_data(ledger, manifest)

    def _finder_data(self, ledger: Ledger, manifest: Manifest) -> Page:
        facts = catalog.load()
        offers = {version: ledger.offers(manifest.project, sha256) for version, sha256 in manifest.offers.items()}
        # Nobody needs to search for a variant.
        files = [file for file in manifest.files.values() if not file.variant and not file.lost]
        about = read_newest(files, lambda key: self._content(f"{ledger.root}{key}"))
        shelf = shelf_of(manifest.project, files, offers, facts, about)
        key = f"{ledger.root}{data_path(manifest.project)}"
        return Page((key,), project_data(shelf, facts), manifest.generation, is_read=False)

    def _content(self, key: str) -> bytes | None:
        found = self.store.read(key)
        return found[0] if found else None

    def _write(self, pages: Iterable[Page]) -> list[Stranger]:
        """Write pages under each of their keys, unless newer ones exist; return the pages of others there."""
        found = []
        for page in pages:
            for key in page.keys:
                stranger = self._write_key(key, content_of_bytes(page.data), page.generation, is_read=page.is_read)
                found += [stranger] if stranger else []
        return found

    def _write_key(self, key: str, content: Content, generation: int, *, is_read: bool) -> Stranger | None:
        for _ in CONTENTION.attempts():
            found = self.store.find(key)
            is_newer = found and (found.tag == content.sha256 or 0 < generation <= found.generation)
            if is_newer and found and self.store.is_whole(key, found, content):
                return None
            stranger = self.stranger_at(key, found) if is_read else None
            if stranger or self.store.put(key, content, instead_of=found, generation=generation):
                return stranger
        raise contention_error(self.store, key)

    def stranger_at(self, key: str, found: Found | None) -> Stranger | None:
        """Return the page of others at a key, unless its links were taken in already."""
        if found is None or found.generation or (key, found.tag) in self.taken:
            return None
        return stranger_in(self.store, key)

    # -- links that others add to our pages

    def read_others(self, ledger: Ledger, project: NormalizedName) -> Manifest:
        """Take in what others have written on the pages of a project since our last change, and return its manifest."""
        manifest, (strangers, directory) = ledger.manifest(project), self.others(ledger, project)
        return self.take_in(ledger, manifest, strangers, directory) if strangers else manifest

    def others(self, ledger: Ledger, project: NormalizedName) -> tuple[list[Stranger], Directory]:
        """Return the pages of others of one of our projects, and the directory with the folders of others as well."""
        known = ledger.directory()
        directory = announce_folders(known, self.list_shared_folders(ledger, known.root))
        return (list(self.strangers(ledger, project, directory)) if project in known.projects else []), directory

    def strangers(self, ledger: Ledger, project: NormalizedName, directory: Directory) -> Iterator[Stranger]:
        """Yield the pages of others of a project."""
        for folder in sorted({"", *directory.folders, *directory.filling}):
            place = f"{ledger.root}{slash(folder)}{project}/"
            for key in (*self.store.page_keys(place), f"{place}index.json"):
                stranger = self.stranger_at(key, self.store.find(key))
                if stranger:
                    yield stranger

    def take_in(
        self, ledger: Ledger, manifest: Manifest, strangers: Sequence[Stranger], directory: Directory
    ) -> Manifest:
        """Add the links on pages of others to the manifest of their project, and return it.

        A file that was taken in from such a page is dropped if its owner has deleted it and lists it no more.
        """
        known = frozenset(file.key for file in manifest.files.values())
        found = self.find_foreign_files(ledger, manifest.project, strangers, directory, known)
        folders = {"", *directory.folders, *directory.filling}
        completed = {file.key: self._complete(ledger.root, file, folders) for file in unknown_files(manifest, found)}
        new = [one.file for one in completed.values() if one.file]
        links = [*found.links, *(one.link for one in completed.values() if one.link)]
        keys = (stranger.key.removeprefix(ledger.root) for stranger in strangers)
        places = {key.rpartition("/")[0].rpartition("/")[0] for key in keys}
        gone = removed_files(manifest, found, places, partial(self._is_there, ledger.root))
        own = directory.folders | directory.filling
        _, after = ledger.change_manifest(manifest.project, lambda now: join(now, found, new, links, gone, own))
        self.taken |= {(stranger.key, stranger.found.tag) for stranger in strangers}
        if new:
            what = f"took in {count(len(new), 'file')} that another tool lists, such as {new[0].name}"
            self.store.reporter.say(f"{manifest.project}: {what}")
        return after

    def find_foreign_files(
        self,
        ledger: Ledger,
        project: NormalizedName,
        strangers: Iterable[Stranger],
        directory: Directory,
        known: frozenset[str] = frozenset(),
    ) -> ForeignLinks:
        """Return the files and links on pages of others of a project; `known` are the keys of known files."""
        pages: dict[str, list[Listed]] = {}
        base = self.store.url(ledger.root)
        for key, data, _ in strangers:
            place = key.removeprefix(ledger.root)
            folder = place.rpartition("/")[0].rpartition("/")[0]
            links = read_links(data, place)
            there = [link._replace(at=self._resolve_link(ledger.root, link.at, base, known)) for link in links]
            pages.setdefault(folder, []).extend(there)
        return merge_listings(project, pages, directory.folders | directory.filling)

    def _resolve_link(self, root: str, at: str, base: str, known: frozenset[str]) -> str:
        """Return the target of a link; the store is asked only about unknown keys."""
        place = resolve(at, base, known.__contains__)
        return resolve(at, base, partial(self._is_there, root)) if place == at and at.startswith("/") else place

    def _is_there(self, root: str, key: str) -> bool:
        return self.store.find(f"{root}{key}") is not None

    def _complete(self, root: str, file: IndexedFile, folders: Iterable[str]) -> Completed:
        """Return a file of others with the facts that their page lacks; its METADATA is written beside it."""
        place = f"{root}{file.key}"
        found = (None if file.is_outside else self.store.find(key) for key in (place, f"{place}{METADATA_SUFFIX}"))
        wheel, metadata = (Entry(place, one.size, "") if one else None for one in found)
        completed = complete(file, self.store, root, wheel, metadata, folders)
        return store_metadata(self.store, f"{place}{METADATA_SUFFIX}", completed)

    # -- the pages that list projects

    def show_fronts(self, root: str, directory: Directory) -> None:
        """Write the front pages, or our lines on them, as far as they are ours."""
        if directory.root is Root.KEPT:
            return
        for _, pages in groupby(self.fronts(root, directory), lambda page: page.keys[-1].rpartition("/")[0]):
            fronts = [(key, page) for page in pages for key in page.keys]
            if directory.root is Root.SHARED:
                fronts = self._select_fronts(fronts)
            for key, page in fronts:
                self._write_front(key, page, directory)

    def _select_fronts(self, fronts: list[tuple[str, Page]]) -> list[tuple[str, Page]]:
        """Return the front pages of a folder to write if others may write them too.

        If others have the page under one key, we add none under another: it would list only our projects.
        """
        found = {key: self.store.find(key) for key, _ in fronts}
        has_others = any(self.stranger_at(key, there) for key, there in found.items())
        return [(key, page) for key, page in fronts if found[key] or not has_others]

    def _write_front(self, key: str, page: Page, directory: Directory) -> None:
        """Write a front page if there is none, or only our own; add our lines to one that lists projects of others."""
        for _ in CONTENTION.attempts():
            stranger = self._write_key(key, content_of_bytes(page.data), page.generation, is_read=True)
            if stranger is None:
                return
            data = self._add_lines(stranger, directory)
            if not data:
                self.taken.add((key, stranger.found.tag))
            elif data == stranger.data or self.store.amend(key, data, instead_of=stranger.found):
                return
        raise contention_error(self.store, key)

    def _add_lines(self, stranger: Stranger, directory: Directory) -> bytes:
        """Return a front page of others with our lines; b"" if our page can replace it, since it lists nothing else."""
        if directory.root is Root.OWN and not lists_more(stranger, directory.projects):
            return b""
        try:
            return add_projects(stranger.data, stranger.key, directory.projects)
        except ValueError as error:
            self.store.reporter.say(f"{self.store.url(stranger.key)} gets none of our lines: {error}")
            return stranger.data

    def fronts(self, root: str, directory: Directory) -> Iterator[Page]:
        """Yield the front page of every folder, and that of the whole index.

        An index of our own has the finder there, a shared one a plain list, as other tools expect.
        """
        folders = directory.folders if directory.root is Root.OWN else {"", *directory.folders}
        for folder in sorted(folders):
            place = f"{root}{slash(folder)}"
            yield Page(self.store.page_keys(place), index.projects_html(directory.projects), directory.generation)
            if directory.root is Root.OWN:
                document = index.projects_json(directory.projects)
                yield Page((f"{place}index.json",), document, directory.generation)
        if directory.root is Root.OWN:
            place = self.store.address.partition("?")[0]  # without the connection's settings
            last = f"{place}/{root}".rstrip("/").rpartition("/")[2]  # a channel may be opened as a separate index
            title = TITLES.get(last, "Wheels")
            page = front_page(sorted(directory.projects), title=title, folders=sorted(directory.folders))
            yield Page(self.store.page_keys(root), page, directory.generation)


def _is_listed(file: IndexedFile | Link, folder: str) -> bool:
    """Return whether a folder's page lists a file; the variants' page includes wheels for no accelerator."""
    if isinstance(file, Link):
        return file.is_listed_in(folder)
    is_for_others = folder == VARIANTS and file.folder == GENERIC and "+" not in file.name and not file.lost
    return is_for_others or file.is_listed_in(folder)
