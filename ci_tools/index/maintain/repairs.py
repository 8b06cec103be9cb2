"""Repairs an index where that makes nothing worse: changes are recorded first, and can be undone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from packaging.utils import NormalizedName

from ci_tools.errors import FatwheelError, MachineError, Rejected, count
from ci_tools.index.arrivals import metadata_of
from ci_tools.index.foreign.files import METADATA_SUFFIX
from ci_tools.index.ledger import Damaged, Ledger
from ci_tools.index.maintain.look import (
    BACK,
    BROKEN,
    DAMAGED,
    GONE,
    LOST,
    NO_METADATA,
    NOT_ON_IT,
    OTHER_SIZE,
    OTHERS,
    UNLISTED,
    UNREAD,
    IndexFlaw,
    fetch,
    forget_notes,
    inspect_directory,
    look_at,
    manifest_of,
    read,
    read_file,
    refuse_no_index,
)
from ci_tools.index.maintain.rebuild import manifest_from_pages
from ci_tools.index.maintain.undo import Edit, FileEdit, finish_record, record_edits
from ci_tools.index.manifest import Directory, Manifest
from ci_tools.index.objects.store import content_of_bytes
from ci_tools.index.pages import IndexedFile
from ci_tools.index.wheel_index import WheelIndex, keys_of

if TYPE_CHECKING:
    from ci_tools.index.maintain.look import Look
    from ci_tools.machine.context import Outside


DONE = MappingProxyType(
    {
        GONE: "not listed until its bytes are back",
        DAMAGED: "not listed until its bytes are back",
        BACK: "listed again",
        OTHERS: "written again, with what it listed",
        UNLISTED: "removed",
    }
)
# Flaws that a repair leaves, by the start of their sentence, each with the remedy.
STAYS = MappingProxyType(
    {
        **dict.fromkeys(LOST.values(), "publish the same bytes again or restore them, or yank it"),
        UNREAD: "repair it again when the store can be read",
        UNLISTED: "--remove-unlisted removes it",
        BROKEN: "none of its pages is complete: restore it, or publish its files again",
    }
)
IN_DOUBT = frozenset({GONE, DAMAGED, OTHER_SIZE, BACK})
AGAIN = "repair it again when nothing is damaged and nobody publishes"


def repair(index: WheelIndex, outside: Outside, *, remove_unlisted: bool = False) -> tuple[IndexFlaw, ...]:
    """Repair the flaws that `verify` finds, and return what a second check finds done about each.

    A file that is gone or has other bytes is not listed until its bytes are back; its entry stays. A manifest that is
    damaged or lost is rebuilt from the pages. A file that a publisher noted and no manifest names stays, since a
    publisher may be at work, unless `remove_unlisted` says that none is; a file that no publisher noted always stays.
    Raises InputError if there is no index.
    """
    refuse_no_index(index)
    with index.store.alone():
        recovered = recover_manifests(index, outside)
        look = read(index, outside)
        if any(_is_repairable(flaw, remove_unlisted=remove_unlisted) for flaw in look.flaws):
            with outside.reporter.step(f"repair {index.address}"):
                _repair(index, look, remove_unlisted=remove_unlisted)
                left = frozenset(look_at(index, {flaw.key for flaw in look.flaws}).flaws)
        else:
            left = frozenset(look.flaws)
        finish_record(index)
        if remove_unlisted:
            forget_notes(index, look)
    return (*recovered, *(_describe_repair(flaw, left) for flaw in look.flaws))


def _is_repairable(flaw: IndexFlaw, *, remove_unlisted: bool) -> bool:
    is_others = flaw.what.startswith((*LOST.values(), UNREAD)) or (flaw.what == UNLISTED and not remove_unlisted)
    return not is_others


def _describe_repair(flaw: IndexFlaw, left: AbstractSet[IndexFlaw]) -> IndexFlaw:
    """Return a flaw with its repair, or with the reason why there was none."""
    if flaw not in left:
        return flaw._replace(done=DONE.get(flaw.what, "written again"))
    why = next((why for begins, why in STAYS.items() if flaw.what.startswith(begins)), AGAIN)
    return flaw._replace(done=f"left: {why}", is_left=True)


# ---------------------------------------------------------------- changes


def _repair(index: WheelIndex, look: Look, *, remove_unlisted: bool) -> None:
    ledger = Ledger(index.store, "")
    suspects = {flaw.key for flaw in look.flaws if flaw.what in IN_DOUBT}
    edits = {one.project: _edit(index, one, suspects) for one in look.manifests}
    removed = {flaw.key for flaw in look.flaws if flaw.what == UNLISTED and remove_unlisted}
    files = tuple(_file_edits(index, look, removed))
    if files or any(edit.before for edit in edits.values()):
        record_edits(index, edits.values(), files)
    _repair_directory(ledger, look)
    changed = [ledger.change_manifest(project, edit.apply, above=look.generation)[1] for project, edit in edits.items()]
    for flaw in (flaw for flaw in look.flaws if flaw.what == NO_METADATA):
        with suppress(Rejected):  # a wheel without METADATA: the flaw stays
            _store_metadata(index, flaw.key)
    named = {key for manifest in changed for file in manifest.files.values() for key in keys_of(file)}
    for key in removed - named:
        index.store.remove(key)
    with suppress(Damaged):  # a filling folder waits for that project's page; the second check reports it
        index.show(ledger, changed)


def _edit(index: WheelIndex, manifest: Manifest, suspects: AbstractSet[str]) -> Edit:
    """Return the new entries of a project's suspect files, each checked again."""
    before = {file.key: file for file in manifest.files.values() if file.key in suspects}
    after = {key: _right(index, file) for key, file in before.items()}
    changed = {key for key in before if before[key] != after[key]}
    return Edit(manifest.project, *({key: files[key] for key in sorted(changed)} for files in (before, after)))


def _right(index: WheelIndex, file: IndexedFile) -> IndexedFile:
    """Return the correct entry of a file: lost, or with its actual size."""
    try:
        found = read_file(index, file.key, file.sha256)
    except FatwheelError:  # its content is unknown
        return file
    if found.sha256 == file.sha256:
        return file._replace(size=found.size, lost="")
    return file._replace(lost="damaged" if found.sha256 else "gone")


def _file_edits(index: WheelIndex, look: Look, removed: AbstractSet[str]) -> Iterator[FileEdit]:
    """Yield the files to overwrite or remove, except pages that are only ours."""
    own = Ledger(index.store, "").directory_key
    for key, what, *_ in look.flaws:
        if key in removed:
            yield FileEdit(key, index.sha256_at(key), "")
        elif what in {NO_METADATA, OTHERS} or what.startswith(NOT_ON_IT) or (key == own and what.startswith(BROKEN)):
            yield FileEdit(key, index.sha256_at(key))


def _repair_directory(ledger: Ledger, look: Look) -> None:
    found, is_there = look.directory, ledger.is_there()

    def complete(known: Directory) -> Directory:
        return (known if is_there else found)._replace(projects=known.projects | found.projects)

    ledger.change_directory(complete, above=look.generation, damaged=found)


def _store_metadata(index: WheelIndex, key: str) -> None:
    """Write a wheel's METADATA beside it, as in the wheel."""
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        wheel = fetch(index, key.removesuffix(METADATA_SUFFIX), Path(folder))
        content = content_of_bytes(metadata_of(wheel)[0])
    index.store.put(key, content, instead_of=index.store.find(key))


# ---------------------------------------------------------------- manifests that cannot be read


def recover_manifests(index: WheelIndex, outside: Outside) -> tuple[IndexFlaw, ...]:
    """Rebuild manifests that are damaged or lost, and return the facts of each that could not be recovered.

    If no page of a project is complete, its manifest stays as it is. Raises MachineError if it changes meanwhile.
    """
    ledger = Ledger(index.store, "")
    directory, _ = inspect_directory(index, ledger)
    flaws: list[IndexFlaw] = []
    for project in sorted(directory.projects):
        error = _damage(ledger, project)
        if error:
            with outside.reporter.step(f"rebuild {error.key} from its pages"):
                flaws += _recover(index, directory, project, error)
    return tuple(flaws)


def _damage(ledger: Ledger, project: NormalizedName) -> Damaged | None:
    try:
        manifest_of(ledger, project)
    except Damaged as error:
        return error
    return None


def _recover(index: WheelIndex, directory: Directory, project: NormalizedName, error: Damaged) -> Iterator[IndexFlaw]:
    """Rebuild one manifest; the damaged bytes are kept for undo, as by a repair."""
    found = index.store.find(error.key)
    damaged = read_file(index, error.key, "?").sha256  # read twice: a truncated answer is not damage
    ledger = Ledger(index.store, "")
    if _damage(ledger, project) is None:
        return
    rebuilt = manifest_from_pages(index, project, directory.folders | directory.filling)
    if rebuilt is None:
        return
    record_edits(index, (), [FileEdit(error.key, damaged)])
    manifest = rebuilt.manifest._replace(generation=rebuilt.manifest.generation + 1)
    if not index.store.put(error.key, content_of_bytes(manifest.dumps()), instead_of=found):
        msg = f"{index.store.url(error.key)} changed while it was rebuilt"
        raise MachineError(msg, hint="somebody else is restoring it; run the same command again")
    lost = f"; not recovered: {', '.join(rebuilt.unknown)}" if rebuilt.unknown else ""
    done = f"rebuilt from its pages: {count(len(manifest.files), 'file')}{lost}"
    yield IndexFlaw(error.key, f"{BROKEN}: {error.why}", done)
