"""Recovers unreadable manifests from the pages that were made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.errors import MachineError
from ci_tools.index.ledger import Damaged, Ledger
from ci_tools.index.maintain.flaws import BROKEN, IndexFlaw
from ci_tools.index.maintain.look import inspect_directory, manifest_of
from ci_tools.index.maintain.reading import read_file
from ci_tools.index.maintain.rebuild import manifest_from_pages
from ci_tools.index.maintain.undo import FileEdit, record_edits
from ci_tools.index.objects.store import content_of_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.utils import NormalizedName

    from ci_tools.index.directory import Directory
    from ci_tools.index.wheel_index import WheelIndex
    from ci_tools.machine.context import Outside


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
    count = f"{len(manifest.files)} file{'' if len(manifest.files) == 1 else 's'}"
    done = f"rebuilt from its pages: {count}{lost}"
    yield IndexFlaw(error.key, f"{BROKEN}: {error.why}", done)
