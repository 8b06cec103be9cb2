"""The store of compile units: objects and manifests in one folder, which several builds read and write at a time.

Each file is written under its name at once, and begins with its name and the sha256 of the rest. A file that was
cut, changed or put under another name is not taken, and is removed. Anyone who may write the folder is trusted, as with
pip's cache. So is the maker of a pack, which has for other machines what a build took from the store and put there.
"""

from __future__ import annotations

import calendar
import hashlib
import json
import os
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from ci_tools.build.units.manifests import LINES, MANIFESTS, load
from ci_tools.errors import MachineError
from ci_tools.machine.storage import write_atomically

SIZE = 5 << 30  # bytes
OBJECTS = "objects"
COSTS = "costs"  # the folder of what each unit took when it was last compiled, by the unit's name (`Seeds.name`)
KEPT = 0.9  # of the size, after the oldest are removed: the next build need not remove some again
PACK, ENTRY = 1 << 30, 1 << 28  # bytes of a pack's entries, and of one
NAME = re.compile(r"(costs|jobs|lines|manifests|objects)(/[0-9a-f][0-9a-f-]*){1,2}")
FIRST = 365 * 86400 * 11  # the times of ZIP files begin in 1980
QUICK = 1  # of zlib: objects shrink to a third by it


class UnitCost(NamedTuple):
    """The time and the memory of one call of a compiler."""

    wall: float = 0.0  # seconds
    cpu: float = 0.0  # seconds of processor time
    peak: int = 0  # bytes of its largest process: the programs of a compiler run one after another (getrusage(2))


@dataclass(slots=True, kw_only=True)
class UnitStore:
    """A folder of named contents; `troubles` says why something could not be written."""

    folder: Path
    size: int = SIZE
    troubles: set[str] = field(default_factory=set)

    def read(self, name: str) -> bytes | None:
        """Return a content, which is the youngest from now on; None if there is none, or none that is whole."""
        path = self.folder / name
        try:
            head, _, content = path.read_bytes().partition(b"\n")
        except OSError:
            return None
        if head != _seal(name, content):
            path.unlink(missing_ok=True)
            return None
        with suppress(OSError):
            os.utime(path)
        return content

    def read_sealed(self, name: str) -> bytes:
        """Return the whole file of a content, or b"" if there is none."""
        try:
            return (self.folder / name).read_bytes()
        except OSError:
            return b""

    def changed(self, name: str) -> float:
        """Return when a content was last used, in seconds since 1970; 0 if there is none."""
        try:
            return (self.folder / name).stat().st_mtime
        except OSError:
            return 0.0

    def adopt(self, name: str, sealed: bytes, used: float) -> bool:
        """Write a file of another store, if it is whole and there is none of its name; return whether it is whole."""
        head, _, content = sealed.partition(b"\n")
        if head != _seal(name, content):
            return False
        if not self.has(name):
            self._write(name, sealed)
            with suppress(OSError):
                os.utime(self.folder / name, (used, used))
        return True

    def has(self, name: str) -> bool:
        """Whether there is something of a name."""
        return (self.folder / name).is_file()

    def write(self, name: str, content: bytes) -> None:
        """Write a content; a full disk, or a folder that cannot be written, is a trouble and no error."""
        self._write(name, _seal(name, content) + b"\n" + content)

    def _write(self, name: str, sealed: bytes) -> None:
        try:
            with write_atomically(self.folder / name, durable=False) as file:
                file.write(sealed)
        except (MachineError, OSError) as error:
            self.troubles.add(str(error))

    def remove(self, name: str) -> None:
        """Remove a content."""
        (self.folder / name).unlink(missing_ok=True)

    def list_names(self, folder: str) -> Iterator[str]:
        """Yield the names in a folder of the store, the youngest first."""
        found = self._list_files(self.folder / folder)
        yield from (Path(path).relative_to(self.folder).as_posix() for _, _, path in sorted(found, reverse=True))

    def evict(self) -> None:
        """Remove the oldest contents of a store that is larger than its size, and what killed runs left."""
        found = sorted(self._list_files(self.folder))
        total = sum(size for _, size, _ in found)
        most = self.size * KEPT if total > self.size else total
        for _, size, path in found:
            if total <= most:
                return
            with suppress(OSError):
                os.unlink(path)  # noqa: PTH108
            total -= size

    def _list_files(self, folder: Path) -> list[tuple[int, int, str]]:
        """Return the time of each file, its size and its path; another run may remove one at any moment."""
        found = []
        for place, _, names in os.walk(folder):  # each build looks, and `pathlib` takes half a second for 6,000 files
            for name in names:
                with suppress(OSError):
                    status = os.stat(path := f"{place}/{name}")  # noqa: PTH116
                    found.append((status.st_mtime_ns, status.st_size, path))
        return found


def _seal(name: str, content: bytes) -> bytes:
    return json.dumps([name, hashlib.sha256(content).hexdigest()]).encode()


def read_cost(unit: str, store: UnitStore) -> UnitCost | None:
    """Return what a unit took when it was last compiled; None if it never was."""
    content = store.read(f"{COSTS}/{unit}")
    return UnitCost(**json.loads(content)) if content is not None else None


def keep_cost(unit: str, cost: UnitCost, store: UnitStore) -> None:
    """Write what a unit took."""
    store.write(f"{COSTS}/{unit}", json.dumps(cost._asdict()).encode())


def name_object(key: str) -> str:
    """Return the name of an object in the store."""
    return f"{OBJECTS}/{key[:2]}/{key}"


def write_pack(store: UnitStore, since: float, path: Path, size: int = PACK) -> int:
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
    for folder in ("jobs", MANIFESTS, OBJECTS):
        for name in store.list_names(folder):
            if store.changed(name) < since:
                break
            yield name
            if folder == MANIFESTS and (found := load(name, store)):
                yield name_object(found.key)
                yield f"{COSTS}/{name.split('/')[1]}"
                yield from (f"{LINES}/{digest}" for digest in found.read.values())


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
