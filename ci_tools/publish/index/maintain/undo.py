"""What the last repair changed: recorded before it is changed, so that it can be put back.

`.fatwheel/undo.json` has each entry of a manifest and each file as it was and as it became; what was overwritten or
removed lies in `.fatwheel/undo/`, by its hash, until the next repair that changes something.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError, MachineError
from ci_tools.machine.objects.store import content_of_bytes, content_of_file
from ci_tools.machine.storage import sha256_of
from ci_tools.publish.index.ledger import OWN, Damaged, Ledger
from ci_tools.publish.index.maintain.flaws import Flaw
from ci_tools.publish.index.maintain.look import refuse_no_index
from ci_tools.publish.index.maintain.pages import is_page
from ci_tools.publish.index.maintain.reading import fetch
from ci_tools.publish.index.manifest import Manifest, parse_manifest
from ci_tools.publish.index.pages import is_sealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_tools.machine.context import Outside
    from ci_tools.publish.index.pages import IndexedFile
    from ci_tools.publish.index.wheel_index import WheelIndex

__all__ = ["Edit", "FileEdit", "finish_record", "record_edits", "undo_repair"]

RECORD = f"{OWN}undo.json"
KEPT = f"{OWN}undo/"
UNKNOWN = "?"  # what a file becomes, before it has become it
ENTRY, FILE = "the last repair changed what its manifest says of it", "the last repair wrote or removed it"
CHANGED = "left: it has changed since"


class Edit(NamedTuple):
    """Entries of a manifest by the keys of their files, as they were and as they become."""

    project: str
    before: Mapping[str, IndexedFile]
    after: Mapping[str, IndexedFile]

    def apply(self, manifest: Manifest) -> Manifest:
        """Return a manifest with the entries as they become, where they are what they were."""
        changed = {key: file for key, file in manifest.files.items() if self.before.get(file.key) == file}
        return manifest._replace(files={**manifest.files, **{key: self.after[changed[key].key] for key in changed}})

    def revert(self, manifest: Manifest) -> Manifest:
        """Return a manifest with the entries as they were, where they are what they became."""
        return Edit(self.project, before=self.after, after=self.before).apply(manifest)


class FileEdit(NamedTuple):
    """A file, as it was and as it becomes: the sha256, nothing where there is none."""

    key: str
    before: str
    after: str = UNKNOWN


class Record(NamedTuple):
    """What a repair changes."""

    edits: Mapping[str, Edit]  # by project
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


def _parse(data: bytes) -> Record:
    """Read a record; raise ValueError where it is none."""
    try:
        table = json.loads(data)
        edits = {
            project: Edit(project, _entries(before, project), _entries(after, project))
            for project, before, after in table["edits"]
        }
        files = {key: FileEdit(str(key), str(before), str(after)) for key, before, after in table["files"]}
        return Record(edits, files, bool(table["done"]))
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _entries(text: str, project: str) -> dict[str, IndexedFile]:
    return {file.key: file for file in parse_manifest(text.encode(), project).files.values()}


def _read(index: WheelIndex) -> Record | None:
    """Return what is recorded; raise InputError where it cannot be read."""
    read = index.store.read(RECORD)
    try:
        return _parse(read[0]) if read else None
    except ValueError as error:
        msg = f"{index.store.url(RECORD)}, which says what the last repair changed, is damaged: {error}"
        raise InputError(msg, hint=f"what it overwrote lies in {index.store.url(KEPT)}") from None


# ---------------------------------------------------------------- recorded


def record_edits(index: WheelIndex, edits: Iterable[Edit], files: Iterable[FileEdit]) -> None:
    """Record what a repair is about to change, and keep the files that it overwrites or removes.

    What a repair before had begun, and did not end, is kept as it was before that one.
    """
    old = None
    with suppress(InputError):  # a damaged record is of no use to anybody
        old = _read(index)
    begun = old if old and not old.is_done else Record({}, {})
    new = Record(
        {**begun.edits, **{edit.project: _join_edits(begun.edits.get(edit.project), edit) for edit in edits}},
        {**begun.files, **{file.key: _since(begun.files.get(file.key), file) for file in files}},
    )
    for file in new.files.values():
        _keep(index, file)
    _store_bytes(index, RECORD, new.dumps())
    _forget(index, new)


def _join_edits(old: Edit | None, new: Edit) -> Edit:
    """Return what two repairs in a row do to a manifest; where somebody has changed an entry between, the second's."""
    if old is None:
        return new
    is_begun = {key for key in old.before if new.before.get(key) in (old.before[key], old.after[key])}
    before = {key: old.before[key] if key in is_begun else file for key, file in new.before.items()}
    return Edit(new.project, {**old.before, **before}, {**old.after, **new.after})


def _since(old: FileEdit | None, new: FileEdit) -> FileEdit:
    return new._replace(before=old.before) if old and new.before in {old.before, old.after} else new


def _keep(index: WheelIndex, file: FileEdit) -> None:
    """Keep the bytes that a file has before it is changed."""
    if not file.before or index.store.find(f"{KEPT}{file.before}"):
        return
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        path = fetch(index, file.key, Path(folder))
        sha256 = sha256_of(path)
        if sha256 != file.before:
            msg = f"{index.store.url(file.key)} changes while it is mended"
            raise MachineError(msg, hint="another publisher is at work; run the same command again")
        index.store.put(f"{KEPT}{sha256}", content_of_file(path, sha256), instead_of=None)


def finish_record(index: WheelIndex) -> None:
    """Note that a repair is done, and what became of the files that it changed."""
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
    if not index.store.put(key, content_of_bytes(data), instead_of=index.store.find(key)):
        msg = f"{index.store.url(key)} changes while the index is mended"
        raise MachineError(msg, hint="another repair is at work; run the same command again")


def _forget(index: WheelIndex, kept: Record | None) -> None:
    """Remove the files that a record does not name."""
    needed = {f"{KEPT}{file.before}" for file in kept.files.values()} if kept else set()
    for key in tuple(index.store.listed(KEPT)):
        if key not in needed:
            index.store.remove(key)


# ---------------------------------------------------------------- put back


def undo_repair(index: WheelIndex, outside: Outside) -> tuple[Flaw, ...]:
    """Put back what the last repair changed, where nobody has changed it since; return what became of each thing.

    Raises InputError where there is no index, or no repair to undo.
    """
    refuse_no_index(index)
    with index.store.alone(), outside.reporter.step(f"undo the last repair of {index.address}"):
        found = _read(index)
        if found is None:
            msg = f"no repair of {index.address} has changed anything that could be put back"
            raise InputError(msg)
        flaws = tuple(_undo(index, found))
        if not any(flaw.is_left for flaw in flaws):
            index.store.remove(RECORD)
            _forget(index, None)
    return flaws


def _undo(index: WheelIndex, found: Record) -> Iterator[Flaw]:
    """Put everything back: entries and their pages first, then files, of which pages may be some."""
    ledger, changed = Ledger(index.store, ""), []
    for project, edit in sorted(found.edits.items()):
        if ledger.manifest_key(project) in found.files:  # the whole manifest is put back
            continue
        before, after = ledger.change_manifest(project, edit.revert)
        changed.append(after)
        yield from _entry_flaws(before, edit)
    with suppress(Damaged):  # a folder that is filling waits for a project whose manifest is damaged
        index.show(ledger, changed)
    # What the index keeps for itself comes last: from then on a damaged manifest is as damaged as it was.
    for file in sorted(found.files.values(), key=lambda file: (file.key.startswith(OWN), file.key)):
        yield _undo_file(index, file)


def _entry_flaws(found: Manifest, edit: Edit) -> Iterator[Flaw]:
    """Yield what became of each entry, by what a manifest was found to say."""
    now = {file.key: file for file in found.files.values()}
    for key in sorted(edit.before):
        is_left = now.get(key) not in (edit.before[key], edit.after[key])
        yield Flaw(key, ENTRY, CHANGED if is_left else "put back", is_left=is_left)


def _undo_file(index: WheelIndex, file: FileEdit) -> Flaw:
    """Put one file back, where it is still what the repair made of it."""
    there = index.store.find(file.key)
    now = index.sha256_at(file.key)
    if now == file.before:
        return Flaw(file.key, FILE, "put back")
    if now != file.after and not _is_our_page(index, file.key):
        return Flaw(file.key, FILE, CHANGED, is_left=True)
    if not file.before:
        index.store.remove(file.key)
        return Flaw(file.key, FILE, "removed again")
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        path = fetch(index, f"{KEPT}{file.before}", Path(folder))
        content = content_of_file(path, sha256_of(path))
        is_there = content.sha256 == file.before and index.store.put(file.key, content, instead_of=there)
    return Flaw(file.key, FILE, "put back" if is_there else CHANGED, is_left=not is_there)


def _is_our_page(index: WheelIndex, key: str) -> bool:
    """Whether a page is one that we wrote, which can always be written again."""
    read = index.store.read(key) if is_page(key) else None
    return read is not None and is_sealed(read[0])
