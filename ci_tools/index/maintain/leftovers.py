"""Files that publishers noted and no manifest names: the publishers were interrupted, or are still at work."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.files import METADATA_SUFFIX
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain.flaws import BROKEN, UNLISTED, IndexFlaw
from ci_tools.index.manifest import parse_staged_keys
from ci_tools.index.pages import VARIANTS
from ci_tools.index.wheel_index import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from ci_tools.index.maintain.look import Look
    from ci_tools.index.wheel_index import WheelIndex


def leftovers(ledger: Ledger, named: AbstractSet[str]) -> Iterator[IndexFlaw]:
    """Yield a flaw for every noted file that exists and is not in a manifest; any other unlisted file is of others.

    This includes a file that was at a noted key before the note: the publisher then puts its own file elsewhere.
    """
    noted = _read_note_times(ledger)
    keys = sorted(key for key in noted.keys() - named if _is_publishers(key) and ledger.store.find(key))
    times = {entry.key: entry.modified for entry in ledger.store.entries()} if keys else {}
    yield from (IndexFlaw(key, UNLISTED) for key in keys if times.get(key, "") >= noted[key])


def _read_note_times(ledger: Ledger) -> dict[str, str]:
    """Return the noted keys, and those of METADATA beside them, each with the time of its first note."""
    found: dict[str, str] = {}
    for entry in sorted(ledger.store.entries(ledger.notes), key=lambda entry: entry.modified):
        for key in _keys(ledger, entry.key):
            found.setdefault(key, entry.modified)
            found.setdefault(f"{key}{METADATA_SUFFIX}", entry.modified)
    return found


def _keys(ledger: Ledger, note: str) -> frozenset[str]:
    """Return the keys in a note; a damaged note counts as empty."""
    read = ledger.store.read(note)
    with suppress(ValueError):
        return parse_staged_keys(read[0]).keys if read else frozenset()
    return frozenset()


def _is_publishers(key: str) -> bool:
    """Whether publishers make files of such a name: wheels, sdists, their METADATA, documents of variants."""
    folder, _, name = key.removesuffix(METADATA_SUFFIX).rpartition("/")
    try:
        return bool(project_and_version(name))
    except ValueError:
        return folder == VARIANTS and name.endswith("-variants.json")


def forget_notes(index: WheelIndex, look: Look) -> None:
    """Remove the notes whose files are all gone or listed; none while a manifest is damaged, since it may list them."""
    if any(flaw.what.startswith(BROKEN) for flaw in look.flaws):
        return
    ledger = Ledger(index.store, "")
    named = {key for one in look.manifests for file in one.files.values() for key in keys_of(file)}
    left = {flaw.key for flaw in leftovers(ledger, named)}
    for note in tuple(index.store.listed(ledger.notes)):
        keys = _keys(ledger, note)
        if keys and keys.isdisjoint(left):
            index.store.remove(note)
