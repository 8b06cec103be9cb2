"""Records the changes of the last repair before they are made, so that they can be undone.

`.fatwheel/undo.json` has each manifest entry and each file before and after the repair; overwritten and removed files
are kept in `.fatwheel/undo/`, by their hash, until the next repair that changes something.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import NormalizedName, canonicalize_name

from ci_tools.errors import InputError, MachineError
from ci_tools.index.foreign.layout import is_page
from ci_tools.index.ledger import OWN, Damaged, Ledger
from ci_tools.index.maintain.look import IndexFlaw, fetch, refuse_no_index
from ci_tools.index.manifest import Manifest, parse_manifest, read_table
from ci_tools.index.objects.store import content_of_bytes, content_of_file
from ci_tools.index.pages import IndexedFile, is_sealed
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.storage import sha256_of

if TYPE_CHECKING:
    from ci_tools.machine.context import Outside

RECORD = f"{OWN}undo.json"
KEPT = f"{OWN}undo/"
UNKNOWN = "?"  # the new content of a file before it is written
ENTRY, FILE = "the last repair changed what its manifest says of it", "the last repair wrote or removed it"
CHANGED = "left: it has changed since"


class Edit(NamedTuple):
    """Manifest entries by the keys of their files, before and after a repair."""

    project: NormalizedName
    before: Mapping[str, IndexedFile]
    after: Mapping[str, IndexedFile]

    def apply(self, manifest: Manifest) -> Manifest:
        """Return a manifest with the new entries, where it still has the old ones."""
        changed = {key: file for key, file in manifest.files.items() if self.before.get(file.key) == file}
        return manifest._replace(files={**manifest.files, **{key: self.after[changed[key].key] for key in changed}})

    def revert(self, manifest: Manifest) -> Manifest:
        """Return a manifest with the old entries, where it still has the new ones."""
        return Edit(self.project, before=self.after, after=self.before).apply(manifest)


class FileEdit(NamedTuple):
    """A file's sha256 before and after a repair; "" if there is no file."""

    key: str
    before: str
    after: str = UNKNOWN


class RepairRecord(NamedTuple):
    """The changes of a repair."""

    edits: Mapping[NormalizedName, Edit]  # by project
    files: Mapping[str, FileEdit]  # by key
    is_done: bool = False

    def dumps(self) -> bytes:
        """Return the record as JSON."""
        edits = [
            [project, *(Manifest(project, files=files).dumps().decode() for files in (before, after))]
            for _, (project, before, after) in sorted(self.edits.items())
        ]
        table = {"done": self.is_done, "edits": edits, "files": sorted(self.files.values())}
        return (json.dumps(table, indent=0) + "\n").encode()


class RecordTable(NamedTuple):
    """The JSON of a record; an edit is the project, and its manifest before and after."""

    done: bool
    edits: tuple[tuple[str, str, str], ...]
    files: tuple[tuple[str, str, str], ...]


def _parse(data: bytes) -> RepairRecord:
    """Read a record; raise ValueError if it is invalid."""
    table = read_table(data, RecordTable)
    named = [(canonicalize_name(project), before, after) for project, before, after in table.edits]
    edits = {
        project: Edit(project, _entries(before, project), _entries(after, project)) for project, before, after in named
    }
    return RepairRecord(edits, {key: FileEdit(key, before, after) for key, before, after in table.files}, table.done)


def _entries(text: str, project: NormalizedName) -> dict[str, IndexedFile]:
    return {file.key: file for file in parse_manifest(text.encode(), project).files.values()}


def _read(index: WheelIndex) -> RepairRecord | None:
    """Return the record; raise InputError if it cannot be read."""
    read = index.store.read(RECORD)
    try:
        return _parse(read[0]) if read else None
    except ValueError as error:
        msg = f"{index.store.url(RECORD)}, which says what the last repair changed, is damaged: {error}"
        raise InputError(msg, hint=f"the files that it overwrote are in {index.store.url(KEPT)}") from error


# ---------------------------------------------------------------- recording


def record_edits(index: WheelIndex, edits: Iterable[Edit], files: Iterable[FileEdit]) -> None:
    """Record the changes that a repair is about to make, and keep the files that it overwrites or removes.

    If an earlier repair was interrupted, the state before that one is kept.
    """
    old = None
    with suppress(InputError):  # a damaged record is useless
        old = _read(index)
    begun = old if old and not old.is_done else RepairRecord({}, {})
    new = RepairRecord(
        {**begun.edits, **{edit.project: _join_edits(begun.edits.get(edit.project), edit) for edit in edits}},
        {**begun.files, **{file.key: _since(begun.files.get(file.key), file) for file in files}},
    )
    for file in new.files.values():
        _keep(index, file)
    _store_bytes(index, RECORD, new.dumps())
    _forget(index, new)


def _join_edits(old: Edit | None, new: Edit) -> Edit:
    """Return two consecutive edits as one; for an entry that was changed between them, only the second."""
    if old is None:
        return new
    is_begun = {key for key in old.before if new.before.get(key) in (old.before[key], old.after[key])}
    before = {key: old.before[key] if key in is_begun else file for key, file in new.before.items()}
    return Edit(new.project, {**old.before, **before}, {**old.after, **new.after})


def _since(old: FileEdit | None, new: FileEdit) -> FileEdit:
    return new._replace(before=old.before) if old and new.before in {old.before, old.after} else new


def _keep(index: WheelIndex, file: FileEdit) -> None:
    """Keep a copy of a file's bytes before the file is changed."""
    if not file.before or index.store.find(f"{KEPT}{file.before}"):
        return
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        path = fetch(index, file.key, Path(folder))
        sha256 = sha256_of(path)
        if sha256 != file.before:
            msg = f"{index.store.url(file.key)} changed while it was repaired"
            raise MachineError(msg, hint="another publisher is running; run the same command again")
        index.store.put(f"{KEPT}{sha256}", content_of_file(path, sha256), instead_of=None)


def finish_record(index: WheelIndex) -> None:
    """Mark the repair as finished, with the new content of the files that it changed."""
    old = None
    with suppress(InputError):
        old = _read(index)
    if old is None or old.is_done:
        return
    files = {
        key: file._replace(after=index.sha256_at(key)) if file.after == UNKNOWN else file
        for key, file in old.files.items()
    }
    _store_bytes(index, RECORD, old._replace(files=files, is_done=True).dumps())


def _store_bytes(index: WheelIndex, key: str, data: bytes) -> None:
    # A conditional write: what another repair has written meanwhile is not lost.
    if not index.store.put(key, content_of_bytes(data), instead_of=index.store.find(key)):
        msg = f"{index.store.url(key)} changed while the index was repaired"
        raise MachineError(msg, hint="another repair is running; run the same command again")


def _forget(index: WheelIndex, kept: RepairRecord | None) -> None:
    """Remove the kept files that a record does not name."""
    needed = {f"{KEPT}{file.before}" for file in kept.files.values()} if kept else set()
    for key in tuple(index.store.listed(KEPT)):
        if key not in needed:
            index.store.remove(key)


# ---------------------------------------------------------------- undoing


def undo_repair(index: WheelIndex, outside: Outside) -> tuple[IndexFlaw, ...]:
    """Undo the last repair, except for parts that were changed since; return the result of each part.

    Raises InputError if there is no index, or no repair to undo.
    """
    refuse_no_index(index)
    with index.store.alone(), outside.reporter.step(f"undo the last repair of {index.address}"):
        found = _read(index)
        if found is None:
            raise InputError(f"there is no repair of {index.address} to undo")
        flaws = tuple(_undo(index, found))
        if not any(flaw.is_left for flaw in flaws):
            index.store.remove(RECORD)
            _forget(index, None)
    return flaws


def _undo(index: WheelIndex, found: RepairRecord) -> Iterator[IndexFlaw]:
    """Undo everything: first entries and their pages, then files, some of which may be pages."""
    ledger, changed = Ledger(index.store, ""), []
    for project, edit in sorted(found.edits.items()):
        if ledger.manifest_key(project) in found.files:  # the whole manifest is restored below
            continue
        before, after = ledger.change_manifest(project, edit.revert)
        changed.append(after)
        yield from _entry_flaws(before, edit)
    with suppress(Damaged):  # a filling folder waits for a project with a damaged manifest
        index.show(ledger, changed)
    # The index's private state is restored last: then a damaged manifest is damaged again.
    for file in sorted(found.files.values(), key=lambda file: (file.key.startswith(OWN), file.key)):
        yield _undo_file(index, file)


def _entry_flaws(found: Manifest, edit: Edit) -> Iterator[IndexFlaw]:
    """Yield the result of each entry, by its value in the manifest."""
    now = {file.key: file for file in found.files.values()}
    for key in sorted(edit.before):
        is_left = now.get(key) not in (edit.before[key], edit.after[key])
        yield IndexFlaw(key, ENTRY, CHANGED if is_left else "put back", is_left=is_left)


def _undo_file(index: WheelIndex, file: FileEdit) -> IndexFlaw:
    """Restore one file, if it is still as the repair left it."""
    there = index.store.find(file.key)
    now = index.sha256_at(file.key)
    if now == file.before:
        return IndexFlaw(file.key, FILE, "put back")
    if now != file.after and not _is_our_page(index, file.key):
        return IndexFlaw(file.key, FILE, CHANGED, is_left=True)
    if not file.before:
        index.store.remove(file.key)
        return IndexFlaw(file.key, FILE, "removed again")
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        path = fetch(index, f"{KEPT}{file.before}", Path(folder))
        content = content_of_file(path, sha256_of(path))
        is_there = content.sha256 == file.before and index.store.put(file.key, content, instead_of=there)
    return IndexFlaw(file.key, FILE, "put back" if is_there else CHANGED, is_left=not is_there)


def _is_our_page(index: WheelIndex, key: str) -> bool:
    """Whether we wrote a page, so that it can always be written again."""
    read = index.store.read(key) if is_page(key) else None
    return read is not None and is_sealed(read[0])
