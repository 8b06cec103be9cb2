"""A package index with PyTorch's layout, in a folder or in a bucket.

`cu130/` holds the wheels for CUDA 13.0 and the pages of the index that lists them; files for every accelerator (the
pure wheel, the sdist) are stored once, at the root. `.fatwheel/` holds the data that the pages are made from. Editions
that are not stable have their own index below the root: `nightly/`, `test/`.

Writers do not lock the index. Files are stored first, while no page names them; then the project's manifest, on the
condition that nobody else has changed it; then the pages, each on the condition that no newer one exists. A writer that
is interrupted between two steps leaves an index that installs, and the project's next writer completes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName, canonicalize_name

from ci_tools.errors import MachineError, Problem, Rejected, RejectedInput
from ci_tools.index import variants
from ci_tools.index.arrivals import (
    Arrival,
    add_arrivals,
    arrival_of,
    entry_of,
    find_problems,
    newest_versions,
    place_apart,
    public_version,
)
from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.files import METADATA_SUFFIX, list_members
from ci_tools.index.foreign.guests import foresee_others, page_changes, refuse_others
from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import Manifest, Root
from ci_tools.index.objects.store import Content, Store, content_of_bytes
from ci_tools.index.page_writer import PageWriter
from ci_tools.index.pages import VARIANTS, IndexedFile
from ci_tools.index.units import Change, Item, Offer, Published, Unit
from ci_tools.machine.http.policy import TIMEOUT, UNANSWERED, innermost, is_temporary
from ci_tools.model.files import WheelMembers
from ci_tools.model.request import Channel, Edition
from ci_tools.model.versions import parse_version

if TYPE_CHECKING:
    from requests import PreparedRequest

NIGHTLIES = 60  # nightly versions kept of each project, as on PyTorch's own index
OFFERED = 10  # versions whose file, or reason for none, the finder shows for every combination


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The user's settings of an index, besides its place."""

    root: Root | None = None  # the owner of its front pages; None: as when the index was begun, ours by default
    nightlies: int = NIGHTLIES  # nightly versions kept of each project


USUAL = Settings()


def folder_of(edition: Edition) -> str:
    """Return the folder of an edition's index below the root, with a slash; "" for a stable one."""
    return "" if edition.channel is Channel.STABLE else f"{edition.channel}/"


class WheelIndex:
    """An index in a store; `replace` allows a file to overwrite one of its name with other bytes."""

    stages = True

    def __init__(self, store: Store, *, order: int, replace: bool = False, settings: Settings = USUAL) -> None:
        self.store = store
        self.address = store.address
        self.order = order
        self.replace = replace
        self.settings = settings
        self.writer = PageWriter(store)
        self.like: WheelIndex | None = None  # the index that this one is a mirror of
        self.laid: dict[str, Arrival] = {}  # files that this run has staged, by name
        self.found: set[str] = set()  # the keys that existed before

    def locate(self, item: Item, unit: Unit) -> str:
        """Return the address of a file, which is another where it replaces one of its name."""
        nothing = Manifest(canonicalize_name(unit.project))
        entry = entry_of(item, unit, nothing, nothing)
        known = self.known(unit).files.values() if self.replace else ()
        if any(old.key == entry.key and old.sha256 != entry.sha256 for old in known):
            entry = place_apart(entry)
        same = (old for old in known if (old.name, old.folder, old.sha256) == (entry.name, entry.folder, entry.sha256))
        return self._url(folder_of(unit.edition), next(same, entry))

    def explain_private(self, unit: Unit) -> str:
        """Return why a file cannot be fetched without credentials: a staged one of the unit, or one listed before."""
        staged = next((self.locate(item, unit) for item in unit.items if item.name in self.laid), "")
        listed = (self._url(folder_of(unit.edition), entry) for entry in self.known(unit).files.values())
        url = staged or next(listed, "")
        return explain_refusal(url) if url.startswith("http") else ""

    # -- the four steps

    def check(self, unit: Unit) -> tuple[Change, ...]:
        """Return what publishing would change; raise RejectedInput with everything that this index cannot accept."""
        project, ledger = canonicalize_name(unit.project), self._ledger(unit)
        problems = list(find_problems(project, (*unit.items, *unit.variants)))
        manifest = ledger.manifest(project)
        arrivals = [] if problems else self._arrivals(unit, manifest)
        after = manifest if problems else add_arrivals(manifest, arrivals, unit, self.settings.nightlies)
        if not problems:
            refuse_others(self.writer, ledger, self.settings.root, after)
        there = foresee_others(self.writer, ledger, manifest) if arrivals else manifest
        problems += (
            self._describe_conflict(arrival.entry, old) for arrival, old in self._find_conflicts(there, arrivals)
        )
        if problems:
            hint = "a published file never changes: raise the version, or use --replace for an index of your own"
            page = "how-to/install-from-the-index.md#changing-what-is-published"
            raise RejectedInput(problems, hint=hint if arrivals else "", page=page)
        self._refuse_late(after, arrivals)
        return tuple(self._changes(unit, manifest, after, arrivals))

    def holds(self, unit: Unit) -> frozenset[str]:
        """Return the files that the index lists of the unit's version."""
        wanted = parse_version(unit.version)
        names = {file.name for file in self.known(unit).files.values()}
        return frozenset(name for name in names if parse_version(public_version(name)) == wanted)

    def foresee(self, unit: Unit) -> None:
        """Raise the errors of `check`: they concern each file by itself."""
        self.check(unit)

    def stage(self, unit: Unit) -> None:
        """Store every file at its final place, with its METADATA beside it; no page names it yet."""
        root = folder_of(unit.edition)
        manifest = self._ledger(unit).manifest(canonicalize_name(unit.project))
        with self.store.alone(root):
            arrivals = self._arrivals(unit, manifest)
            self._note(unit, manifest, arrivals)
            self.laid = {arrival.entry.name: self._lay(root, arrival, manifest) for arrival in arrivals}

    def verify(self, unit: Unit) -> None:
        """Read every staged file back completely; raise Rejected if its bytes differ."""
        for entry, content, _ in self.laid.values():
            key = f"{folder_of(unit.edition)}{entry.key}"
            found = self.sha256_at(key)
            if found != content.sha256:
                what = f"has the sha256 {found}" if found else "is not there"
                msg = f"{self.store.url(key)} {what}, expected {content.sha256}"
                raise Rejected(msg, hint="nothing was published; run the same command again")

    def switch(self, unit: Unit) -> tuple[Published, ...]:
        """Add the files to the manifest and then to the pages; raise InputError if another publisher came first."""
        ledger, project = self._ledger(unit), canonicalize_name(unit.project)
        root = ledger.root
        with self.store.alone(root):
            self.writer.read_others(ledger, project)
            offers = ledger.keep_offers(project, self._offers(unit)) if unit.offers else ""
            before, after = ledger.change_manifest(project, lambda manifest: self._enter_unit(manifest, unit, offers))
            self._store_again(root, before)
            self.show(ledger, [after])
            self._tidy(ledger, before, after)
            ledger.forget(project, {key for file in after.files.values() for key in keys_of(file)})
        laid = ((one, arrival) for name, arrival in self.laid.items() for one in after.called(name))
        return tuple(
            Published(entry.name, self._url(root, entry), new=entry not in before.called(entry.name))
            for entry, arrival in laid
            if entry.sha256 == arrival.entry.sha256
        )

    def _offers(self, unit: Unit) -> tuple[Offer, ...]:
        """Return a unit's file for every combination, and those that its version has already for others.

        If wheels are added, the reasons why other combinations have none are kept as well.
        """
        ledger, manifest = self._ledger(unit), self.known(unit)
        known = manifest.offers.get(unit.version)
        there = ledger.offers(manifest.project, known) if known else ()
        asked = {offer[:4] for offer in unit.offers}
        others = (offer for offer in there if offer[:4] not in asked)
        kept = (offer for offer in others if (manifest.called(offer.file) if offer.file else unit.added))
        return (*unit.offers, *kept)

    def url(self, edition: Edition, folder: str) -> str:
        """Return the address of a folder of an edition's index, for installers."""
        return self.store.url(f"{folder_of(edition)}{folder}")

    def _url(self, root: str, entry: IndexedFile) -> str:
        """Return the address of a file, for downloads."""
        return entry.at if "://" in entry.at else self.store.url(f"{root}{entry.key}")

    def _ledger(self, unit: Unit) -> Ledger:
        return Ledger(self.store, folder_of(unit.edition))

    # -- pages

    def show(self, ledger: Ledger, manifests: Sequence[Manifest]) -> None:
        """Write the pages of some projects, and the front pages."""
        self.writer.show(ledger, manifests, self.settings.root)

    # -- files to publish

    def _arrivals(self, unit: Unit, manifest: Manifest) -> list[Arrival]:
        first = self.like.known(unit) if self.like else Manifest(manifest.project)
        return [arrival_of(item, unit, manifest, first) for item in (*unit.items, *unit.variants)]

    def known(self, unit: Unit) -> Manifest:
        """Return the manifest of a unit's project."""
        return self._ledger(unit).manifest(canonicalize_name(unit.project))

    def list_others(self, unit: Unit) -> list[NormalizedName]:
        """Return the other projects of a unit's channel."""
        return sorted(self._ledger(unit).projects() - {canonicalize_name(unit.project)})

    def read_owners(self, unit: Unit, projects: Iterable[NormalizedName]) -> Iterator[WheelMembers]:
        """Yield each of these projects of a unit's channel with its newest wheel and that one's members."""
        ledger = self._ledger(unit)
        for project in projects:
            files = ledger.manifest(project).files.values()
            wheels = [one for one in files if one.name.endswith(".whl") and not one.at]
            if newest := max(wheels, key=lambda one: project_and_version(one.name)[1], default=None):
                members = list_members(self.store, f"{ledger.root}{newest.key}", newest.size)
                yield WheelMembers(project, newest.name, members)

    def _find_conflicts(self, manifest: Manifest, arrivals: Iterable[Arrival]) -> Iterator[tuple[Arrival, IndexedFile]]:
        """Yield the files that would overwrite others and may not."""
        for arrival in arrivals:
            new = arrival.entry
            for old in manifest.called(new.name):
                is_other = old.sha256 != new.sha256 and old.meets(new)
                if is_other and not self.replace and not 0 < old.candidate < new.candidate:
                    yield arrival, old

    def _refuse_late(self, after: Manifest, arrivals: Iterable[Arrival]) -> None:
        """Raise RejectedInput for files that a manifest would not keep."""
        late = [arrival.entry.name for arrival in arrivals if not after.called(arrival.entry.name)]
        if late:
            count = self.settings.nightlies
            problems = (f"{name} is older than the {count} nightlies in {self.address}" for name in late)
            hint = "an index of nightlies keeps only the newest"
            raise RejectedInput([Problem("", problem) for problem in problems], hint=hint)

    def _describe_conflict(self, new: IndexedFile, old: IndexedFile) -> Problem:
        hashes = f"sha256 {old.sha256[:12]}…, new {new.sha256[:12]}…"
        return Problem("", f"{new.name} is in {self.address} already with other bytes ({hashes})")

    def _changes(
        self, unit: Unit, manifest: Manifest, after: Manifest, arrivals: Sequence[Arrival]
    ) -> Iterator[Change]:
        root = folder_of(unit.edition)
        for entry, _, _ in arrivals:
            old = next((old for old in manifest.called(entry.name) if old.meets(entry)), None)
            what = "add" if old is None else "keep" if old.sha256 == entry.sha256 else "replace"
            yield Change(what, self._url(root, entry), f"{entry.size:,} bytes, sha256 {entry.sha256}")
        for name in sorted(_names(manifest) - _names(after)):
            why = "of an earlier candidate" if unit.edition.candidate else f"over {self.settings.nightlies} nightlies"
            yield Change("remove", self._url(root, manifest.called(name)[0]), why)
        if after.files != manifest.files:
            yield from page_changes(self.writer, Ledger(self.store, root), self.settings.root, after)
        before, documents = variants.documents(manifest), variants.documents(after)
        for name in sorted(name for name in {*before, *documents} if before.get(name) != documents.get(name)):
            yield Change("update" if name in documents else "remove", self.store.url(f"{root}{VARIANTS}/{name}"))

    # -- files

    def _note(self, unit: Unit, manifest: Manifest, arrivals: Sequence[Arrival]) -> None:
        """Note the keys that this run will add or remove: if it is interrupted, its files are then known as ours."""
        after, root = add_arrivals(manifest, arrivals, unit, self.settings.nightlies), folder_of(unit.edition)
        removed = {file for file in set(manifest.files.values()) - set(after.files.values()) if not file.is_outside}
        places = [place for arrival in arrivals for place in (arrival.entry, place_apart(arrival.entry))]
        keys = {key for place in places for key in keys_of(place) if self.store.find(f"{root}{key}") is None}
        keys |= {key for file in removed for key in keys_of(file)}
        if keys:
            self._ledger(unit).note(manifest.project, keys)

    def _lay(self, root: str, arrival: Arrival, manifest: Manifest) -> Arrival:
        """Store one file and its METADATA, and return its place: a separate folder if other files are at its place."""
        key = f"{root}{arrival.entry.key}"
        if (arrival.entry.key, arrival.entry.sha256) in {(file.key, file.sha256) for file in manifest.files.values()}:
            self._store_or_replace(key, arrival.content)
        elif not (self._is_free_beside(key, arrival.metadata) and self._store_file(key, arrival.content)):
            arrival = arrival._replace(entry=place_apart(arrival.entry))
            self._store_or_replace(f"{root}{arrival.entry.key}", arrival.content)
        if arrival.entry.metadata_sha256:
            self._store_or_replace(f"{root}{arrival.entry.key}{METADATA_SUFFIX}", content_of_bytes(arrival.metadata))
        return arrival

    def _is_free_beside(self, key: str, metadata: bytes) -> bool:
        """Return whether no other METADATA is beside a place: that of a file of others, which may be deleted."""
        read = self.store.read(f"{key}{METADATA_SUFFIX}")
        return read is None or read[0] == metadata

    def _store_again(self, root: str, before: Manifest) -> None:
        """Upload again files that existed but were unlisted: their uploader may have deleted them meanwhile."""
        named = {file.key for file in before.files.values()}
        for entry, content, metadata in self.laid.values():
            key = f"{root}{entry.key}"
            if entry.key not in named and key in self.found:
                self._store_or_replace(key, content)
                if metadata:
                    self._store_or_replace(f"{key}{METADATA_SUFFIX}", content_of_bytes(metadata))

    def _store_file(self, key: str, content: Content) -> bool:
        """Store a file, or store it again if it is damaged; return whether the key now has this file."""
        if self.store.put(key, content, instead_of=None):
            return True
        self.found.add(key)
        if self.sha256_at(key) == content.sha256:
            return True
        found = self.store.find(key)
        is_damaged = found is not None and found.sha256 == content.sha256
        return is_damaged and self.store.put(key, content, instead_of=found)

    def _store_or_replace(self, key: str, content: Content) -> None:
        """Store a file whose key no other file uses; a damaged file there is stored again."""
        if self._store_file(key, content):
            return
        if not self.store.put(key, content, instead_of=self.store.find(key)):
            msg = f"{self.store.url(key)} changed while it was published"
            raise MachineError(msg, hint="another publisher is running; run the same command again")

    def sha256_at(self, key: str) -> str:
        """Return the sha256 of the content at a key, read completely, or "" if there is none."""
        return self.sha256_and_size_at(key)[0]

    def sha256_and_size_at(self, key: str) -> tuple[str, int]:
        """Return the sha256 and size in bytes of the content at a key, read completely; "" and 0 if there is none."""
        digest, size = hashlib.sha256(), 0
        for chunk in self.store.chunks(key):
            digest.update(chunk)
            size += len(chunk)
        is_there = size > 0 or self.store.find(key) is not None
        return (digest.hexdigest() if is_there else ""), size

    def _enter_unit(self, manifest: Manifest, unit: Unit, offers: str) -> Manifest:
        """Return the manifest with the unit's files in it."""
        arrivals = [self._locate_arrival(arrival) for arrival in self._arrivals(unit, manifest)]
        for arrival, old in self._find_conflicts(manifest, arrivals):
            raise RejectedInput([self._describe_conflict(arrival.entry, old)], hint="another publisher came first")
        after = add_arrivals(manifest, arrivals, unit, self.settings.nightlies)
        self._refuse_late(after, arrivals)
        newest = newest_versions(_names(after), OFFERED)
        kept = {name: known for name, known in after.offers.items() if name in newest}
        return after._replace(offers={**kept, unit.version: offers} if offers else kept)

    def _locate_arrival(self, arrival: Arrival) -> Arrival:
        """Return the arrival with the place where this run has stored it."""
        laid = self.laid[arrival.entry.name].entry
        return arrival._replace(entry=arrival.entry._replace(apart=laid.apart, at=laid.at))

    # -- unlisted files

    def _tidy(self, ledger: Ledger, before: Manifest, after: Manifest) -> None:
        """Remove files that no page names any more, unless another publisher has listed them again meanwhile."""
        inside = {file.key for file in before.files.values() if not file.is_outside}
        gone = inside - {file.key for file in after.files.values()}
        named = {file.key for file in ledger.manifest(after.project).files.values()} if gone else set()
        for key in sorted(gone - named):
            self.store.remove(f"{ledger.root}{key}")
            self.store.remove(f"{ledger.root}{key}{METADATA_SUFFIX}")
        for name in variants.documents(before).keys() - variants.documents(after).keys():
            self.store.remove(f"{ledger.root}{VARIANTS}/{name}")
        for sha256 in set(before.offers.values()) - set(after.offers.values()):
            self.store.remove(ledger.offers_key(after.project, sha256))


def _names(manifest: Manifest) -> set[str]:
    return {file.name for file in manifest.files.values()}


def keys_of(file: IndexedFile) -> set[str]:
    """Return the keys of a file and of its METADATA."""
    return {file.key, f"{file.key}{METADATA_SUFFIX}"}


def explain_refusal(url: str) -> str:
    """Return why the file at an address cannot be fetched without credentials, or "".

    Raises MachineError without an answer, or with one that may be another later.
    """
    from ci_tools.machine.http.client import open_session  # noqa: PLC0415 - only a smart release needs it

    def leave_anonymous(request: PreparedRequest) -> PreparedRequest:
        return request  # else requests looks for a password in .netrc

    try:
        with open_session() as session:
            session.auth = leave_anonymous
            with session.get(url, headers={"Range": "bytes=0-0"}, stream=True, timeout=TIMEOUT) as answer:
                status = answer.status_code
    except UNANSWERED as error:
        raise MachineError(f"{url} does not answer: {innermost(error)}") from error
    if is_temporary(status):
        raise MachineError(f"{url} answers {status}")
    return f"{url} answers {status} without credentials" if status >= HTTPStatus.BAD_REQUEST else ""
