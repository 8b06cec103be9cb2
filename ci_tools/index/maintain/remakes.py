"""Notes in an index who made its wheels again: runs that signed what they made, or a person's word, which says so."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import InputError
from ci_tools.formats.json_file import parse, structure
from ci_tools.github.attested import find_provenances, find_remake
from ci_tools.github.client import Hub
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain.look import refuse_no_index
from ci_tools.index.maintain.marks import refuse_unprintable
from ci_tools.index.manifest import Manifest
from ci_tools.index.wheel_index import WheelIndex


class RemakeRecord(NamedTuple):
    """The part of the JSON of `fatwheel verify` that an index keeps."""

    wheel: str
    sha256: str
    same: bool
    on: str  # RFC 3339


def note_attested(index: WheelIndex, hub: Hub) -> tuple[str, ...]:
    """Note what runs of a repository's verify.yml have signed of an index's wheels; return the names of these.

    Raises MachineError if GitHub does not say it.
    """
    refuse_no_index(index)
    ledger = Ledger(index.store, "")
    manifests = [ledger.manifest(project) for project in sorted(ledger.directory().projects)]
    hashes = {file.sha256 for one in manifests for file in one.files.values() if file.name.endswith(".whl")}
    with hub.opened(anonymous=True) as repository:
        signed = find_provenances(hub, repository, hashes) or {}
    remade = {sha256: found for sha256, one in signed.items() if (found := find_remake(one))}
    return _note(index, ledger, manifests, remade)


def note_word(index: WheelIndex, records: list[Path], who: str) -> tuple[str, ...]:
    """Note what somebody says they made again: the JSON of `fatwheel verify`; return the names of the wheels.

    Raises InputError for a record of a wheel that differs, or that the index does not have.
    """
    refuse_no_index(index)
    refuse_unprintable(who)
    ledger = Ledger(index.store, "")
    manifests = [ledger.manifest(project) for project in sorted(ledger.directory().projects)]
    there = {(file.name, file.sha256) for one in manifests for file in one.files.values()}
    remade = {}
    for path in records:
        one = _read(path)
        if not one.same or (one.wheel, one.sha256) not in there:
            why = "does not have it" if one.same else "has no use for it: the remake differs"
            raise InputError(f"{path} is of {one.wheel} with the sha256 {one.sha256}, and the index {why}")
        remade[one.sha256] = (who, one.on[:10], "")
    return _note(index, ledger, manifests, remade)


def _read(path: Path) -> RemakeRecord:
    try:
        return structure(parse(path.read_bytes()), RemakeRecord, str(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not what `fatwheel verify --format json` prints: {error}") from error


def _note(
    index: WheelIndex, ledger: Ledger, manifests: list[Manifest], remade: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Write who remade files of these hashes into manifests and the finder's data; a word replaces no signature."""

    def mark(manifest: Manifest) -> Manifest:
        files = {
            key: file._replace(remade=remade[file.sha256])
            for key, file in manifest.files.items()
            if file.sha256 in remade and (remade[file.sha256][-1] or not file.remade or not file.remade[-1])
        }
        return manifest._replace(files={**manifest.files, **files})

    with index.store.alone():
        changed = [one for one in manifests if any(file.sha256 in remade for file in one.files.values())]
        after = [ledger.change_manifest(one.project, mark)[1] for one in changed]
        if after:
            index.show(ledger, after)
    return tuple(sorted(file.name for one in after for file in one.files.values() if file.sha256 in remade))
