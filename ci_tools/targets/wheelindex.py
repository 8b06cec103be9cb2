"""A package index as PyTorch lays it out, in a folder or in a bucket.

`cu130/` holds the wheels of CUDA 13.0 and the pages of the index that lists them; what every accelerator lists (the
pure wheel, the sdist) lies once at the root. `.fatwheel/` holds what the pages are made from. Editions that are not
stable have an index of their own below the root: `nightly/`, `test/`.

Writers do not wait for each other. Files are put first, where no page names them; then the project's manifest, on the
condition that nobody else has changed it; then the pages, each on the condition that no newer one is there. Whoever
is stopped between two of these leaves an index that installs, and the next writer of the project brings it up to date.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import Version

from ci_tools import catalog, index, variants
from ci_tools.errors import MachineError, Problem, Rejected, RejectedInput
from ci_tools.finder import data_path, front_page, project_data, shelf_of
from ci_tools.index import VARIANTS, IndexedFile
from ci_tools.manifest import GENERIC, Manifest
from ci_tools.model import FOLDER, Channel
from ci_tools.release import Change, Published
from ci_tools.targets.ledger import Ledger, contended, pauses
from ci_tools.targets.store import of_bytes, of_file
from ci_tools.wheelfile import opened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_tools.manifest import Directory
    from ci_tools.model import Edition
    from ci_tools.release import Item, Unit
    from ci_tools.targets.store import Content, Store

__all__ = ["METADATA_SUFFIX", "Page", "WheelIndex", "folder_of", "metadata_of"]

METADATA_SUFFIX = ".metadata"  # PEP 658
# A project of such a name would have its page where an accelerator or a channel has its index.
TAKEN = re.compile(r"(cpu|xpu|nightly|test|finder|variants)|(cu|rocm)\d[a-z0-9.]*")
NIGHTLIES = 60  # versions that are kept of each project, as on PyTorch's own index
OFFERED = 10  # versions of which the finder knows what they have for every combination, and why nothing
TITLES = {"nightly": "Nightly wheels", "test": "Wheels to try before their release"}  # by the last folder


class Arrival(NamedTuple):
    """One file to publish: what the index will say of it, the file itself, and its METADATA."""

    entry: IndexedFile
    content: Content
    metadata: bytes


class Page(NamedTuple):
    """A page, the keys that clients ask for it by, and the generation of what it is made from."""

    keys: tuple[str, ...]
    data: bytes
    generation: int


def folder_of(edition: Edition) -> str:
    """Return the folder of an edition's index below the root, with a slash; nothing for a stable one."""
    return "" if edition.channel is Channel.STABLE else f"{edition.channel}/"


class WheelIndex:
    """An index in a store; `replace` lets a file take the place of one of its name with other bytes."""

    stages = True

    def __init__(self, store: Store, *, order: int, replace: bool = False) -> None:
        self.store = store
        self.address = store.address
        self.order = order
        self.replace = replace
        self.laid: dict[str, Arrival] = {}  # what this run has staged, by name
        self.found: set[str] = set()  # the keys of what was there before

    # -- the four steps

    def check(self, unit: Unit) -> tuple[Change, ...]:
        """Return what publishing would change; raise RejectedInput with all that this index cannot take."""
        project = canonicalize_name(unit.project)
        problems = list(_problems(project, (*unit.items, *unit.variants)))
        manifest = self._ledger(unit).manifest(project)
        arrivals = [] if problems else self._arrivals(unit, manifest)
        problems += (self._refused(arrival.entry, old) for arrival, old in self._changed(manifest, arrivals))
        if problems:
            hint = "a published file never changes: raise the version, or say --replace for an index of your own"
            raise RejectedInput(problems, hint=hint if arrivals else "")
        self._refuse_late(_with(manifest, arrivals, unit), arrivals)
        return tuple(self._changes(unit, manifest, arrivals))

    def stage(self, unit: Unit) -> None:
        """Put every file where it will lie, with its METADATA beside it; no page names it yet."""
        root = folder_of(unit.edition)
        manifest = self._ledger(unit).manifest(canonicalize_name(unit.project))
        with self.store.alone(root):
            arrivals = self._arrivals(unit, manifest)
            self.laid = {arrival.entry.name: self._lay(root, arrival, manifest) for arrival in arrivals}

    def verify(self, unit: Unit) -> None:
        """Read every staged file back, whole; raise Rejected where its bytes are others."""
        for entry, content, _ in self.laid.values():
            key = f"{folder_of(unit.edition)}{entry.key}"
            found = self.sha256_at(key)
            if found != content.sha256:
                what = f"has the sha256 {found}" if found else "is not there"
                msg = f"{self.store.url(key)} {what}, expected {content.sha256}"
                raise Rejected(msg, hint="nothing was switched; run the same command again")

    def switch(self, unit: Unit) -> tuple[Published, ...]:
        """Name the files in the manifest and then in the pages; raise InputError where another publisher came first."""
        ledger, project = self._ledger(unit), canonicalize_name(unit.project)
        root = ledger.root
        with self.store.alone(root):
            offers = ledger.keep_offers(project, unit.offers) if unit.offers else ""
            before, after = ledger.change_manifest(project, lambda manifest: self._entered(manifest, unit, offers))
            self._lay_once_more(root, before)
            self.show(ledger, [after])
            self._tidy(ledger, before, after)
        entries = (after.files[name] for name in self.laid if name in after.files)
        return tuple(
            Published(entry.name, self.store.url(f"{root}{entry.key}"), new=before.files.get(entry.name) != entry)
            for entry in entries
        )

    def url(self, edition: Edition, folder: str) -> str:
        """Return the address that an installer is given for a folder of an edition's index."""
        return self.store.url(f"{folder_of(edition)}{folder}")

    def _ledger(self, unit: Unit) -> Ledger:
        return Ledger(self.store, folder_of(unit.edition))

    # -- what is to be published

    def _arrivals(self, unit: Unit, manifest: Manifest) -> list[Arrival]:
        items = (*unit.items, *unit.variants)
        return [_arrival(item, unit, manifest.files.get(item.name)) for item in items]

    def _changed(self, manifest: Manifest, arrivals: Iterable[Arrival]) -> Iterator[tuple[Arrival, IndexedFile]]:
        """Yield the files that would take the place of others and may not."""
        for arrival in arrivals:
            old, new = manifest.files.get(arrival.entry.name), arrival.entry
            if old and old.sha256 != new.sha256 and not self.replace and not 0 < old.candidate < new.candidate:
                yield arrival, old

    def _refuse_late(self, after: Manifest, arrivals: Iterable[Arrival]) -> None:
        """Raise RejectedInput for files that a manifest would not keep."""
        late = [arrival.entry.name for arrival in arrivals if arrival.entry.name not in after.files]
        if late:
            problems = (f"{name} is older than the {NIGHTLIES} nightlies in {self.address}" for name in late)
            hint = "an index of nightlies keeps the newest alone"
            raise RejectedInput([Problem("", problem) for problem in problems], hint=hint)

    def _refused(self, new: IndexedFile, old: IndexedFile) -> Problem:
        hashes = f"sha256 {old.sha256[:12]}…, new {new.sha256[:12]}…"
        return Problem("", f"{new.name} is in {self.address} already with other bytes ({hashes})")

    def _changes(self, unit: Unit, manifest: Manifest, arrivals: Sequence[Arrival]) -> Iterator[Change]:
        root = folder_of(unit.edition)
        for entry, _, _ in arrivals:
            old = manifest.files.get(entry.name)
            what = "add" if old is None else "keep" if old.sha256 == entry.sha256 else "replace"
            yield Change(what, self.store.url(f"{root}{entry.key}"), f"{entry.size:,} bytes, sha256 {entry.sha256}")
        after = _with(manifest, arrivals, unit)
        for name in sorted(manifest.files.keys() - after.files.keys()):
            why = "of an earlier candidate" if unit.edition.candidate else f"over {NIGHTLIES} nightlies"
            yield Change("remove", self.store.url(f"{root}{manifest.files[name].key}"), why)
        if after.files != manifest.files:
            yield from self._page_changes(root, after)
        before, documents = variants.documents(manifest), variants.documents(after)
        for name in sorted(name for name in {*before, *documents} if before.get(name) != documents.get(name)):
            yield Change("update" if name in documents else "remove", self.store.url(f"{root}{VARIANTS}/{name}"))

    def _page_changes(self, root: str, manifest: Manifest) -> Iterator[Change]:
        """Yield the pages that a changed manifest changes."""
        known = Ledger(self.store, root).directory()
        announced = _announced(known, _folders(manifest))
        projects = known.projects | {manifest.project}
        places = {f"{_slash(folder)}{manifest.project}/" for folder in {"", *announced.folders, *announced.filling}}
        places |= {f"{folder}/{project}/" for folder in announced.filling for project in projects}
        places.add(data_path(manifest.project))
        if projects != known.projects or announced.filling:
            places |= {"", *(f"{folder}/" for folder in announced.folders | announced.filling)}
        for place in sorted(places):
            yield Change("update", self.store.url(f"{root}{place}"))

    # -- files

    def _lay(self, root: str, arrival: Arrival, manifest: Manifest) -> Arrival:
        """Put one file and its METADATA, and return where: in a folder of its own where others lie at its place."""
        if not self._put(f"{root}{arrival.entry.key}", arrival.content):
            old = manifest.files.get(arrival.entry.name)
            is_its_own = old and (old.key, old.sha256) == (arrival.entry.key, arrival.entry.sha256)
            apart = arrival.entry.apart if is_its_own else arrival.entry.sha256[:16]
            arrival = arrival._replace(entry=arrival.entry._replace(apart=apart))
            self._put_again(f"{root}{arrival.entry.key}", arrival.content)
        if arrival.entry.metadata_sha256:
            self._put_again(f"{root}{arrival.entry.key}{METADATA_SUFFIX}", of_bytes(arrival.metadata))
        return arrival

    def _lay_once_more(self, root: str, before: Manifest) -> None:
        """Put what was found and no manifest named: who had put it may have removed it before this one named it."""
        named = {file.key for file in before.files.values()}
        for entry, content, metadata in self.laid.values():
            key = f"{root}{entry.key}"
            if entry.key not in named and key in self.found:
                self._put_again(key, content)
                if metadata:
                    self._put_again(f"{key}{METADATA_SUFFIX}", of_bytes(metadata))

    def _put(self, key: str, content: Content) -> bool:
        """Put a file, once more where that very file has been damaged; return whether it is there, and not another."""
        if self.store.put(key, content, instead_of=None):
            return True
        self.found.add(key)
        if self.sha256_at(key) == content.sha256:
            return True
        found = self.store.find(key)
        is_damaged = found is not None and found.sha256 == content.sha256
        return is_damaged and self.store.put(key, content, instead_of=found)

    def _put_again(self, key: str, content: Content) -> None:
        """Put what this place is for alone; what is there and damaged is put once more."""
        if self._put(key, content):
            return
        if not self.store.put(key, content, instead_of=self.store.find(key)):
            msg = f"{self.store.url(key)} changes while it is published"
            raise MachineError(msg, hint="another publisher is at work; run the same command again")

    def sha256_at(self, key: str) -> str:
        """Return the sha256 of what is at a key, read whole; nothing where there is nothing."""
        return self.sha256_and_size_at(key)[0]

    def sha256_and_size_at(self, key: str) -> tuple[str, int]:
        """Return the sha256 and the size in bytes of what is at a key, read whole; no sha256 where there is nothing."""
        digest, size = hashlib.sha256(), 0
        for chunk in self.store.chunks(key):
            digest.update(chunk)
            size += len(chunk)
        is_there = size > 0 or self.store.find(key) is not None
        return (digest.hexdigest() if is_there else ""), size

    def _entered(self, manifest: Manifest, unit: Unit, offers: str) -> Manifest:
        """Return the manifest with the unit's files in it."""
        arrivals = [self._as_laid(arrival) for arrival in self._arrivals(unit, manifest)]
        for arrival, old in self._changed(manifest, arrivals):
            raise RejectedInput([self._refused(arrival.entry, old)], hint="another publisher came first")
        after = _with(manifest, arrivals, unit)
        self._refuse_late(after, arrivals)
        newest = _newest(after.files, OFFERED)
        kept = {name: known for name, known in after.offers.items() if name in newest}
        return after._replace(offers={**kept, unit.version: offers} if offers else kept)

    def _as_laid(self, arrival: Arrival) -> Arrival:
        """Return the arrival at the place where this run has put it."""
        return arrival._replace(entry=arrival.entry._replace(apart=self.laid[arrival.entry.name].entry.apart))

    # -- pages

    def show(self, ledger: Ledger, manifests: Sequence[Manifest]) -> None:
        """Write the pages of some projects, and what lists them.

        A folder that is new is announced first, so that from then on every writer writes its page there as well; it is
        shown when every project has one.
        """
        needed = {folder for manifest in manifests for folder in _folders(manifest)}
        shown = {manifest.project for manifest in manifests}
        directory, basis = ledger.change_directory(lambda known: _announced(known, needed)), None
        while basis is None or not _covers(basis, directory, shown):
            basis = directory
            for manifest in manifests:
                self._show_project(ledger, manifest, basis.folders | basis.filling)
            for project in sorted(basis.projects - shown) if basis.filling else ():
                self._show_project(ledger, ledger.manifest(project), basis.filling)
            directory = ledger.change_directory(partial(_shown, basis=basis, projects=shown))
        self._write(self.fronts(ledger.root, directory))

    def _show_project(self, ledger: Ledger, manifest: Manifest, folders: Iterable[str]) -> None:
        """Write a project's pages in some folders, and again where its manifest has a newer generation by then.

        A bucket's tag is of the bytes alone. Where a newer page has the very bytes that this writer found, it has their
        tag as well, and is written over; who may have done so sees the newer manifest, since that came before its page.
        """
        written = -1
        while written < manifest.generation:
            self._write(self.pages(ledger, manifest, folders))
            written, manifest = manifest.generation, ledger.manifest(manifest.project)

    def pages(self, ledger: Ledger, manifest: Manifest, folders: Iterable[str]) -> Iterator[Page]:
        """Yield a project's page in each of some folders and at the root, and what the finder knows of it."""
        root, files = ledger.root, tuple(manifest.files.values())
        for folder in sorted({"", *folders}):
            listed = [file for file in files if _is_listed(file, folder)]
            place = f"{root}{_slash(folder)}{manifest.project}/"
            beside = variants.documents(manifest) if folder == VARIANTS else {}
            for name, data in beside.items():  # before the page that names them
                yield Page((f"{root}{folder}/{name}",), data, manifest.generation)
            page = index.project_html(manifest.project, listed, folder, beside)
            yield Page(self.store.page_keys(place), page, manifest.generation)
            document = index.project_json(manifest.project, listed, folder, beside)
            yield Page((f"{place}index.json",), document, manifest.generation)
        yield self._finder_data(ledger, manifest)

    def _finder_data(self, ledger: Ledger, manifest: Manifest) -> Page:
        facts = catalog.load()
        offers = {version: ledger.offers(manifest.project, sha256) for version, sha256 in manifest.offers.items()}
        files = (file for file in manifest.files.values() if not file.variant)  # nobody has to look for a variant
        shelf = shelf_of(manifest.project, files, offers, facts)
        key = f"{ledger.root}{data_path(manifest.project)}"
        return Page((key,), project_data(shelf, facts), manifest.generation)

    def fronts(self, root: str, directory: Directory) -> Iterator[Page]:
        """Yield the front page of every folder, and that of the whole index."""
        for folder in sorted(directory.folders):
            place = f"{root}{_slash(folder)}"
            page = index.projects_html(directory.projects)
            yield Page(self.store.page_keys(place), page, directory.generation)
            document = index.projects_json(directory.projects)
            yield Page((f"{place}index.json",), document, directory.generation)
        place = self.address.partition("?")[0]  # without how it is reached
        last = f"{place}/{root}".rstrip("/").rpartition("/")[2]  # a channel may be opened as an index of its own
        title = TITLES.get(last, "Wheels")
        page = front_page(sorted(directory.projects), title=title, folders=sorted(directory.folders))
        yield Page(self.store.page_keys(root), page, directory.generation)

    def _write(self, pages: Iterable[Page]) -> None:
        """Write pages under each of their keys, unless newer ones are there."""
        for keys, data, generation in pages:
            for key in keys:
                self._write_key(key, of_bytes(data), generation)

    def _write_key(self, key: str, content: Content, generation: int) -> None:
        for pause in pauses():
            found = self.store.find(key)
            is_done = (
                found
                and (found.tag == content.sha256 or 0 < generation <= found.generation)
                and self.store.is_whole(key, found, content)  # half a page is written over
            )
            if is_done or self.store.put(key, content, instead_of=found, generation=generation):
                return
            time.sleep(pause)
        raise contended(self.store, key)

    # -- what is left over

    def _tidy(self, ledger: Ledger, before: Manifest, after: Manifest) -> None:
        """Remove what no page names any more; what somebody has named again meanwhile stays."""
        gone = {file.key for file in before.files.values()} - {file.key for file in after.files.values()}
        named = {file.key for file in ledger.manifest(after.project).files.values()} if gone else set()
        for key in sorted(gone - named):
            self.store.remove(f"{ledger.root}{key}")
            self.store.remove(f"{ledger.root}{key}{METADATA_SUFFIX}")
        for name in variants.documents(before).keys() - variants.documents(after).keys():
            self.store.remove(f"{ledger.root}{VARIANTS}/{name}")
        for sha256 in set(before.offers.values()) - set(after.offers.values()):
            self.store.remove(ledger.offers_key(after.project, sha256))


def _slash(folder: str) -> str:
    return f"{folder}/" if folder else ""


def _is_listed(file: IndexedFile, folder: str) -> bool:
    """Whether a folder's page lists a file; that of the variants is for machines without an accelerator too."""
    is_for_others = folder == VARIANTS and file.folder == GENERIC and "+" not in file.name
    return is_for_others or file.is_listed_in(folder)


def _announced(known: Directory, folders: set[str]) -> Directory:
    """Return the directory with folders that are new to it as filling."""
    return known._replace(filling=known.filling | (folders - known.folders))


def _shown(known: Directory, basis: Directory, projects: set[str]) -> Directory:
    """Return the directory with projects, and with folders that every project has its page in by now.

    Where others have added what the pages written by `basis` do not cover, nothing is shown yet.
    """
    if not _covers(basis, known, projects):
        return known
    return known._replace(
        projects=known.projects | projects,
        folders=known.folders | basis.filling,
        filling=known.filling - basis.filling,
    )


def _covers(basis: Directory, known: Directory, projects: set[str]) -> bool:
    """Whether the pages that were written by one directory are all that another needs of the writer of projects."""
    has_folders = known.folders | known.filling <= basis.folders | basis.filling
    return has_folders and (not basis.filling or known.projects <= basis.projects | projects)


def _folders(manifest: Manifest) -> set[str]:
    """Return every folder that lists a file of a project and not of all."""
    return {name for file in manifest.files.values() for name in (file.folder, *file.also) if name}


def _with(manifest: Manifest, arrivals: Iterable[Arrival], unit: Unit) -> Manifest:
    """Return a manifest with some files more: of nightlies the newest versions alone, of a version one candidate."""
    files = {**manifest.files, **{arrival.entry.name: arrival.entry for arrival in arrivals}}
    if unit.edition.channel is Channel.NIGHTLY:
        return manifest._replace(files=_kept(files))
    older = {name for name, file in files.items() if 0 < file.candidate < unit.edition.candidate}
    replaced = {name for name in older if Version(_public(name)) == Version(unit.version)}
    return manifest._replace(files={name: file for name, file in files.items() if name not in replaced})


def _public(name: str) -> str:
    """Return the version of a file less its local part."""
    return index.project_and_version(name)[1].public


def _kept(files: Mapping[str, IndexedFile]) -> dict[str, IndexedFile]:
    """Return the files of the newest versions."""
    newest = _newest(files, NIGHTLIES)
    return {name: file for name, file in files.items() if _public(name) in newest}


def _newest(names: Iterable[str], count: int) -> set[str]:
    """Return the newest versions among some files, without local parts."""
    return set(sorted(set(map(_public, names)), key=Version, reverse=True)[:count])


# ---------------------------------------------------------------- what arrives


def _problems(project: str, items: Iterable[Item]) -> Iterator[Problem]:
    """Yield what keeps files out of any index: names that are none of the project's, and folders that are none."""
    if TAKEN.fullmatch(project):
        yield Problem("", f"an index has a folder called {project}, so that no project can be called so")
    for item in items:
        yield from _item_problems(project, item)
    for name, count in Counter(item.name for item in items).items():
        if count > 1:
            yield Problem("", f"{name} is to be published {count} times at once, expected once")


def _item_problems(project: str, item: Item) -> Iterator[Problem]:
    for folder in (item.folder, *item.also):
        if not FOLDER.fullmatch(folder):
            yield Problem("", f"{item.name} cannot go to {folder!r}, expected a folder such as cu130")
    try:
        whose = index.project_and_version(item.name)[0]
    except ValueError as error:
        yield Problem("", f"{item.name!r} is not the name of a wheel or an sdist: {error}")
        return
    if whose != project:
        yield Problem("", f"{item.name} is a file of {whose}, expected one of {project}")
    if index.variant_label(item.name) and not item.variant:
        yield Problem("", f"{item.name} has the name of a wheel variant, and nothing says what it needs")


def _arrival(item: Item, unit: Unit, old: IndexedFile | None) -> Arrival:
    """Read what the index will say of a file; bytes that are there already stay as old, and as yanked, as they are."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")
    metadata, requires_python = metadata_of(item.path) if item.made else (b"", "")
    entry = IndexedFile(
        name=item.name,
        folder=item.folder,
        sha256=item.sha256,
        size=item.size,
        uploaded=now,
        requires_python=requires_python,
        metadata_sha256=hashlib.sha256(metadata).hexdigest() if metadata else "",
        also=item.also,
        candidate=unit.edition.candidate,
        job=item.made.job if item.made else "",
        platform=item.made.platform if item.made else "",
        archs=item.made.archs if item.made else (),
        toolchain=item.made.toolchain if item.made else "",
        commit=unit.commit,
        variant=item.variant,
    )
    if old and old.sha256 == entry.sha256:
        entry = entry._replace(uploaded=old.uploaded, yanked=old.yanked, commit=old.commit or entry.commit)
        entry = entry._replace(apart=old.apart) if old.folder == entry.folder else entry
    return Arrival(entry, of_file(item.path, item.sha256), metadata)


def metadata_of(path: Path) -> tuple[bytes, str]:
    """Return a wheel's METADATA and the Pythons it asks for."""
    wheel = opened(path)
    with wheel.archive:
        metadata, requires = wheel.dist_info_data("METADATA"), wheel.metadata.get("Requires-Python", "")
    if not metadata:
        msg = f"{path.name} has no METADATA"
        raise Rejected(msg)
    return metadata, requires
