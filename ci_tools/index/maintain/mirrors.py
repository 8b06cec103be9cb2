"""Compares an index with its mirror, and copies the files that only one of them has.

Both should have the same files. One lags if a publisher was interrupted between the two, or if it lost a file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.utils import NormalizedName

from ci_tools.index.arrivals import metadata_of
from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.files import METADATA_SUFFIX
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain.look import IndexFlaw, fetch
from ci_tools.index.objects.store import content_of_bytes, content_of_file
from ci_tools.index.pages import IndexedFile
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import sha256_of

LACKS = "the other copy of this index has the file, this one does not"
OTHERWISE = "the other copy of this index has different facts about the file"
UNLIKE = "the other copy of this index has other bytes under this name"
COPIED = "copied from there"
LEFT = "left: decide which one is right with `fatwheel index add` or `yank`"


class _Gap(NamedTuple):
    """A file that one place has, and the other lacks or has a different entry for."""

    place: WheelIndex
    other: WheelIndex
    file: IndexedFile
    what: str


def differences(first: WheelIndex, mirror: WheelIndex) -> tuple[IndexFlaw, ...]:
    """Return the differences of a mirror from the first index; of files that both have, the first is right."""
    return tuple(IndexFlaw(gap.place.store.url(gap.file.key), gap.what) for gap in _gaps(first, mirror))


def copy_missing(first: WheelIndex, mirror: WheelIndex, outside: Outside) -> tuple[IndexFlaw, ...]:
    """Copy to each place the files that only the other has, and return the results.

    A file whose bytes do not match its manifest is not copied. Raises MachineError if a store fails.
    """
    return tuple(_close_gap(gap, outside) for gap in _gaps(first, mirror))


def _gaps(first: WheelIndex, mirror: WheelIndex) -> Iterator[_Gap]:
    ledgers = Ledger(first.store, ""), Ledger(mirror.store, "")
    for project in sorted(ledgers[0].projects() | ledgers[1].projects()):
        ours, theirs = (ledger.manifest(project).files for ledger in ledgers)
        for key in sorted({*ours, *theirs}):
            here, there = ours.get(key), theirs.get(key)
            if there is None and here:
                yield _Gap(mirror, first, here, LACKS)
            elif here is None and there:
                yield _Gap(first, mirror, there, LACKS)
            elif here and there and here.sha256 != there.sha256:
                yield _Gap(mirror, first, here, UNLIKE)
            elif here and there and _common_fields(here) != _common_fields(there):
                yield _Gap(mirror, first, here, OTHERWISE)


def _common_fields(file: IndexedFile) -> IndexedFile:
    """Return the fields that both places must share: each has its own separate folders and lost files."""
    return file._replace(apart="", lost="")


def _close_gap(gap: _Gap, outside: Outside) -> IndexFlaw:
    flaw = IndexFlaw(gap.place.store.url(gap.file.key), gap.what)
    if gap.what == UNLIKE:
        return flaw._replace(done=LEFT, is_left=True)
    with outside.reporter.step(f"copy {gap.file.name} to {gap.place.address}"):
        file = gap.file._replace(lost="") if gap.what == LACKS else _own(gap)
        if gap.what == LACKS and not file.is_outside and not _copy_file(gap):
            return flaw._replace(done="left: the bytes that its manifest names cannot be copied there", is_left=True)
        _name(gap.place, file)
    return flaw._replace(done=COPIED)


def _own(gap: _Gap) -> IndexedFile:
    """Return the first index's entry of a file, with the mirror's own separate folder and lost state."""
    project = Ledger(gap.place.store, "").manifest(_project(gap.file))
    there = next(file for file in project.called(gap.file.name) if file.sha256 == gap.file.sha256)
    return gap.file._replace(apart=there.apart, lost=there.lost)


def _project(file: IndexedFile) -> NormalizedName:
    return project_and_version(file.name)[0]


def _copy_file(gap: _Gap) -> bool:
    """Copy a file and its METADATA if the place has nothing else at its keys; return whether it has them now."""
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        path = fetch(gap.other, gap.file.key, Path(folder))
        if sha256_of(path) != gap.file.sha256:
            return False
        is_put = gap.place.store.put(gap.file.key, content_of_file(path, gap.file.sha256), instead_of=None)
        if not is_put and gap.place.sha256_at(gap.file.key) != gap.file.sha256:
            return False
        if gap.file.metadata_sha256:
            metadata = content_of_bytes(metadata_of(path)[0])
            gap.place.store.put(f"{gap.file.key}{METADATA_SUFFIX}", metadata, instead_of=None)
    return True


def _name(place: WheelIndex, file: IndexedFile) -> None:
    """Add a file to a place's manifest and pages."""
    ledger = Ledger(place.store, "")
    with place.store.alone():
        _, manifest = ledger.change_manifest(_project(file), lambda now: now.add_files([file]))
        place.show(ledger, [manifest])
