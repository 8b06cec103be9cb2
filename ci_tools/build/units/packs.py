"""Packs: what a build took from the store of compile units, and what it put there, as one file for other machines.

The maker of a pack is trusted as a writer of the store is. A name that leads elsewhere, and an entry that was cut,
changed or given another name, is left out, and the rest is taken.
"""

from __future__ import annotations

import calendar
import re
import time
import zlib
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from ci_tools.build.units import manifests
from ci_tools.build.units.desk import OBJECTS, name_object
from ci_tools.build.units.store import COSTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_tools.build.units.store import UnitStore

SIZE, ENTRY = 1 << 30, 1 << 28  # bytes of a pack's entries, and of one
NAME = re.compile(r"(costs|jobs|lines|manifests|objects)(/[0-9a-f][0-9a-f-]*){1,2}")
FIRST = 365 * 86400 * 11  # the times of ZIP files begin in 1980
QUICK = 1  # of zlib: objects shrink to a third by it


def write_pack(store: UnitStore, since: float, path: Path, size: int = SIZE) -> int:
    """Write what was used since a time, in seconds since 1970, the youngest first; return the number of entries."""
    count = 0
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=QUICK) as pack:
        for name in dict.fromkeys(_list_used(store, since)):
            content = store.read_sealed(name)
            size -= len(content)
            if size < 0:
                break
            if 0 < len(content) <= ENTRY:
                entry = ZipInfo(name, time.gmtime(max(store.changed(name), FIRST))[:6])
                pack.writestr(entry, content, ZIP_DEFLATED)
                count += 1
    return count


def _list_used(store: UnitStore, since: float) -> Iterator[str]:
    """Yield the names of what was used, and of what explains a change of it."""
    for folder in ("jobs", manifests.MANIFESTS, OBJECTS):
        for name in store.list_names(folder):
            if store.changed(name) < since:
                break
            yield name
            if folder == manifests.MANIFESTS and (found := manifests.load(name, store)):
                yield name_object(found.key)
                yield f"{COSTS}/{name.split('/')[1]}"
                yield from (f"{manifests.LINES}/{digest}" for digest in found.read.values())


def read_pack(path: Path, store: UnitStore) -> int:
    """Put into the store what it lacks of a pack; return how many of the pack's entries are not whole."""
    harmed, left = 0, store.size
    try:
        with ZipFile(path) as pack:
            for entry in pack.infolist():
                left -= entry.file_size
                if left < 0:
                    break
                harmed += not _adopt(entry, pack, store)
    except (BadZipFile, OSError):
        harmed += 1
    return harmed


def _adopt(entry: ZipInfo, pack: ZipFile, store: UnitStore) -> bool:
    """Put an entry into the store; return whether it is whole."""
    if not NAME.fullmatch(entry.filename) or entry.file_size > ENTRY:
        return False
    try:
        used = calendar.timegm((*entry.date_time, 0, 0, 0))
        return store.adopt(entry.filename, pack.read(entry), used)
    except (BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError, zlib.error):
        return False  # damaged, or of another kind
