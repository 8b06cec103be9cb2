"""What publishers noted that they would put into an index, and no manifest names: they were stopped, or are at work."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ci_tools.index import VARIANTS, project_and_version
from ci_tools.manifest import parse_staged
from ci_tools.targets.ledger import OWN, Ledger
from ci_tools.targets.wheelindex import METADATA_SUFFIX, keys_of
from ci_tools.upkeep.flaws import BROKEN, UNLISTED, Flaw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from ci_tools.targets.wheelindex import WheelIndex
    from ci_tools.upkeep.look import Look

__all__ = ["forget_notes", "leftovers", "removable_keys"]


def leftovers(ledger: Ledger, named: AbstractSet[str]) -> Iterator[Flaw]:
    """Yield what is noted, is there and is not named; all else that is not named is other people's."""
    noted = {key for key in ledger.staged() if not key.startswith(OWN)}
    noted |= {f"{key}{METADATA_SUFFIX}" for key in noted if not key.endswith(METADATA_SUFFIX)}
    yield from (Flaw(key, UNLISTED) for key in sorted(noted - named) if ledger.store.find(key))


def removable_keys(index: WheelIndex, look: Look) -> frozenset[str]:
    """Return the leftovers that are not older than the note of them: what lay there before is other people's."""
    keys = {flaw.key for flaw in look.flaws if flaw.what == UNLISTED}
    times = {entry.key: entry.modified for entry in index.store.entries()} if keys else {}
    noted: dict[str, str] = {}
    for note, names in _notes(Ledger(index.store, "")):
        for key in names:
            noted[key] = min(times.get(note, ""), noted.get(key, "9"))
    noted |= {f"{key}{METADATA_SUFFIX}": time for key, time in noted.items()}
    return frozenset(key for key in keys if _is_publishers(key) and times.get(key, "") >= noted.get(key, "9"))


def _notes(ledger: Ledger) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield each note with what it names; a damaged one says nothing."""
    for note in tuple(ledger.store.listed(ledger.notes)):
        read = ledger.store.read(note)
        with suppress(ValueError):
            if read:
                yield note, parse_staged(read[0]).keys


def _is_publishers(key: str) -> bool:
    """Whether a publisher puts files of such a name anywhere: wheels, sdists, their METADATA, documents of variants."""
    folder, _, name = key.removesuffix(METADATA_SUFFIX).rpartition("/")
    try:
        return bool(project_and_version(name))
    except ValueError:
        return folder == VARIANTS and name.endswith("-variants.json")


def forget_notes(index: WheelIndex, look: Look) -> None:
    """Remove the notes of which every file is named, or is not there; while a manifest is damaged, nobody knows."""
    if any(flaw.what.startswith(BROKEN) for flaw in look.flaws):
        return
    named = {key for one in look.manifests for file in one.files.values() for key in keys_of(file)}
    for note, keys in _notes(Ledger(index.store, "")):
        if not any(index.store.find(key) for key in keys - named):
            index.store.remove(note)
