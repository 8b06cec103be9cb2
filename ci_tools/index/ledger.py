"""The private state of an index in a store: read, and changed without ever reverting changes of others.

Below the root, where no client looks, `.fatwheel/index.json` is the directory, `.fatwheel/projects/NAME.json` the
manifest of a project, and `.fatwheel/offers/NAME/` has its releases' files for every requested combination.
`.fatwheel/staged/` has a note of each publisher that is at work, or was interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import TypeVar

from packaging.utils import NormalizedName

from ci_tools.errors import MachineError
from ci_tools.index.manifest import (
    Directory,
    Manifest,
    dump_offers,
    dump_staged_keys,
    generation_of,
    is_project,
    parse_directory,
    parse_manifest,
    parse_offers,
    parse_staged_keys,
)
from ci_tools.index.objects.store import Found, Store, content_of_bytes
from ci_tools.index.units import Offer
from ci_tools.machine.http.policy import CONTENTION

OWN = ".fatwheel/"
RESTORE = "`fatwheel index repair` rebuilds it from the pages; or restore it"
REPAIR = "`fatwheel index repair` rebuilds it from the manifests"

NOTE = re.compile(r"[0-9a-f]{16}\.json")  # a note's name after its project's
LONGEST_REASON = 200  # characters of an error that may quote a file

_T = TypeVar("_T")
_Kept = TypeVar("_Kept", Manifest, Directory)


class Damaged(MachineError):
    """A file of the index's private state cannot be read."""

    def __init__(self, store: Store, key: str, why: object, *, hint: str) -> None:
        self.key = key
        self.why = str(why)[:LONGEST_REASON]
        super().__init__(f"{store.url(key)}, which the pages are made from, is damaged: {self.why}", hint=hint)


class Ledger:
    """The manifests and the directory of the index that begins at `root`, which is empty or ends in a slash."""

    def __init__(self, store: Store, root: str) -> None:
        self.store = store
        self.root = root
        self.directory_key = f"{root}{OWN}index.json"
        self.manifests = f"{root}{OWN}projects/"
        self.notes = f"{root}{OWN}staged/"

    # -- manifests

    def manifest(self, project: NormalizedName) -> Manifest:
        """Return the manifest of a project; raise Damaged if it cannot be read."""
        return self._manifest(project)[0]

    def newest(self, manifest: Manifest) -> Manifest:
        """Return the current version of a manifest; it is not parsed again if its generation is the same."""
        read = self.store.read(self.manifest_key(manifest.project))
        is_same = read is not None and generation_of(read[0]) == manifest.generation
        return manifest if is_same else self.manifest(manifest.project)

    def projects(self) -> frozenset[NormalizedName]:
        """Return the projects with a manifest, including those of a publisher that was interrupted."""
        found = (key.removeprefix(self.manifests) for key in self.store.listed(self.manifests))
        names = (name.removesuffix(".json") for name in found if name.endswith(".json"))
        return frozenset(filter(is_project, names))

    def change_manifest(
        self, project: NormalizedName, change: Callable[[Manifest], Manifest], *, above: int | None = None
    ) -> tuple[Manifest, Manifest]:
        """Change a manifest while others may change it too; return it before and after the change.

        With `above` it gets a higher generation than that even without a change, so that pages of that generation are
        written again.
        """
        return self._change(self.manifest_key(project), lambda: self._manifest(project), change, above)

    def _manifest(self, project: NormalizedName) -> tuple[Manifest, Found | None]:
        key = self.manifest_key(project)
        read = self.store.read(key)
        if read is None:
            if project in self.directory().projects:
                raise Damaged(self.store, key, "it is gone", hint=RESTORE)
            return Manifest(project), None
        return self._parse_or_refuse(key, lambda: parse_manifest(read[0], project), RESTORE), read[1]

    def manifest_key(self, project: NormalizedName) -> str:
        """Return the key of a project's manifest."""
        return f"{self.manifests}{project}.json"

    # -- the directory

    def is_there(self) -> bool:
        """Return whether Fatwheel has made an index here."""
        return self.store.find(self.directory_key) is not None

    def directory(self) -> Directory:
        """Return the projects and folders of the index; raise Damaged if they cannot be read."""
        return self._directory()[0]

    def find_directory(self) -> Directory | None:
        """Return the same, or None if Fatwheel has made no index here; ask once for both."""
        directory, found = self._directory()
        return directory if found else None

    def change_directory(
        self, change: Callable[[Directory], Directory], *, above: int | None = None, damaged: Directory | None = None
    ) -> Directory:
        """Change the directory as `change_manifest` changes a manifest; return the new one.

        `damaged` is the directory to change if the existing one cannot be read.
        """
        return self._change(self.directory_key, lambda: self._directory(damaged), change, above)[1]

    def _directory(self, damaged: Directory | None = None) -> tuple[Directory, Found | None]:
        read = self.store.read(self.directory_key)
        if read is None:
            return Directory(), None
        try:
            return self._parse_or_refuse(self.directory_key, lambda: parse_directory(read[0]), REPAIR), read[1]
        except Damaged:
            if damaged is None:
                raise
            return damaged, read[1]

    # -- offers

    def keep_offers(self, project: NormalizedName, offers: Iterable[Offer]) -> str:
        """Store a release's files for every combination, and return the hash that identifies them."""
        content = content_of_bytes(dump_offers(offers))
        key = self.offers_key(project, content.sha256)
        if not self.store.put(key, content, instead_of=None):
            found = self.store.read(key)
            if found and found[0] != content.data:
                self.store.put(key, content, instead_of=found[1])
        return content.sha256

    def offers(self, project: NormalizedName, sha256: str) -> tuple[Offer, ...]:
        """Return stored offers; empty if they are missing or damaged, since installers do not need them."""
        read = self.store.read(self.offers_key(project, sha256))
        return parse_offers(read[0]) if read else ()

    def offers_key(self, project: NormalizedName, sha256: str) -> str:
        """Return the key of the offers with that hash."""
        return f"{self.root}{OWN}offers/{project}/{sha256}.json"

    # -- notes of publishers

    def note(self, project: NormalizedName, keys: Iterable[str]) -> str:
        """Note the keys at which a publisher will add or remove files, before it does so; return the note's own key.

        If it is interrupted, its files are known as ours by the note. Publishers with the same keys share a note.
        """
        content = content_of_bytes(dump_staged_keys(set(keys)))
        key = f"{self.notes}{project}-{content.sha256[:16]}.json"
        self.store.put(key, content, instead_of=None)
        return key

    def forget(self, project: NormalizedName, named: AbstractSet[str]) -> None:
        """Remove the notes of a project that have no further use: all their files are listed or gone."""
        own = f"{self.notes}{project}-"
        for key in [key for key in self.store.listed(self.notes) if NOTE.fullmatch(key.removeprefix(own))]:
            read = self.store.read(key)
            with suppress(ValueError):
                unnamed = parse_staged_keys(read[0]) - named if read else frozenset()
                if not any(self.store.find(f"{self.root}{one}") for one in unnamed):
                    self.store.remove(key)

    def read_staged_keys(self) -> frozenset[str]:
        """Return every key in the publishers' notes."""
        return frozenset[str]().union(*map(self.read_note, self.store.listed(self.notes)))

    def read_note(self, key: str) -> frozenset[str]:
        """Return the keys in a note; a damaged note counts as empty."""
        read = self.store.read(key)
        with suppress(ValueError):
            return parse_staged_keys(read[0]) if read else frozenset()
        return frozenset()

    # -- changes and damage

    def _change(
        self,
        key: str,
        read: Callable[[], tuple[_Kept, Found | None]],
        change: Callable[[_Kept], _Kept],
        above: int | None,
    ) -> tuple[_Kept, _Kept]:
        """Change what is at a key while others may change it too; return it before and after the change."""
        for _ in CONTENTION.attempts():
            before, found = read()
            after = change(before)
            if found and after == before and above is None:
                return before, before
            after = after._replace(generation=max(before.generation, above or 0) + 1)
            if self.store.put(key, content_of_bytes(after.dumps()), instead_of=found):
                return before, after
        raise contention_error(self.store, key)

    def _parse_or_refuse(self, key: str, parse: Callable[[], _T], hint: str) -> _T:
        try:
            return parse()
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(self.store, key, error, hint=hint) from error


def contention_error(store: Store, key: str) -> MachineError:
    """Return the error for a key that others keep changing."""
    msg = f"{store.url(key)} was changed by others {CONTENTION.tries} times in a row"
    return MachineError(msg, hint="run the same command again")
