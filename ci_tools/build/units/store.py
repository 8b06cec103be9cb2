"""The store of compile units: objects and manifests in one folder, which several builds read and write at a time.

Each file is written under its name at once, and begins with its name and the sha256 of the rest. A file that was
cut, changed or put under another name is not taken, and is removed. Anyone who may write the folder is trusted, as with
pip's cache.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import MachineError
from ci_tools.machine.storage import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = 5 << 30  # bytes
COSTS = "costs"  # the folder of what each unit took when it was last compiled, by the unit's name (`Seeds.name`)
KEPT = 0.9  # of the size, after the oldest are removed: the next build need not remove some again


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
