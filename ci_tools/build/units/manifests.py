"""Manifests: what a unit read and looked for in vain when its text was last made, so that it need not be made again.

Paths are written relative to named folders, as another Python has its packages elsewhere. If each file that was read
has the same content, and what was absent is absent, preprocessing would give the same text.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_tools.build.units.calls import CompilerCall
    from ci_tools.build.units.files import Digests
    from ci_tools.build.units.passes import Lookups
    from ci_tools.build.units.store import UnitStore

MANIFESTS, LINES = "manifests", "lines"
MOST = 8  # of one unit with the same options: one for each torch, or state of its source
LAG = 10_000_000  # nanoseconds that a file's time may be behind the clock: a tick of the kernel


class TextManifest(NamedTuple):
    """The files that a text depended on, by named paths, and the key of its object."""

    key: str
    call: str  # a digest of `told`
    read: Mapping[str, str]  # the content's digest of each file
    absent: tuple[str, ...]
    told: Mapping[str, str]  # everything that decided the compiler's work, in words


class FolderNames(NamedTuple):
    """Names for the folders of a build, the innermost first."""

    folders: tuple[tuple[str, str], ...]  # path and name

    def add(self, name: str, folder: str) -> FolderNames:
        """Return these names and one more; a folder that has a name keeps it."""
        if any(folder == known for known, _ in self.folders):
            return self
        return FolderNames(tuple(sorted((*self.folders, (folder, name)), key=lambda one: -len(one[0]))))

    def shorten(self, path: str) -> str:
        """Return a path with the name of its folder in place of the folder."""
        for folder, name in self.folders:
            if path == folder or path.startswith(f"{folder}/"):
                return f"<{name}>{path[len(folder) :]}"
        return path

    def expand(self, path: str) -> str:
        """Return the path of a named one."""
        for folder, name in self.folders:
            if path.startswith(f"<{name}>"):
                return f"{folder}{path[len(name) + 2 :]}"
        return path


def name_folders(folders: Mapping[str, Path]) -> FolderNames:
    """Return these names of folders."""
    found = ((str(path), name) for name, path in folders.items())
    return FolderNames(tuple(sorted(found, key=lambda one: -len(one[0]))))


def record(
    key: str, call: str, told: Mapping[str, str], lookups: Lookups, names: FolderNames, files: Digests
) -> TextManifest:
    """Return the manifest of a text that was just made."""
    read = {names.shorten(path): files.digest(path) for path in sorted(lookups.read)}
    return TextManifest(key, call, read, tuple(sorted(map(names.shorten, lookups.absent))), told)


def is_reliable(lookups: Lookups, call: CompilerCall, files: Digests, began: int) -> bool:
    """Whether a manifest says all: it was traced, no file changed meanwhile, and none asks for the time."""
    fixed = {b"DATE", b"TIME"} if call.environ.get("SOURCE_DATE_EPOCH") else set()
    is_traced = str(call.source) in lookups.read
    return is_traced and all(files.clock(path) <= fixed and files.changed(path) < began for path in lookups.read)


def find_change(manifest: TextManifest, names: FolderNames, files: Digests) -> str:
    """Return the first file that is not as it was, as a named path; "" if none is."""
    for path, digest in manifest.read.items():
        if files.digest(names.expand(path)) != digest:
            return path
    return next((path for path in manifest.absent if files.exists(names.expand(path))), "")


def explain(
    manifest: TextManifest, told: Mapping[str, str], names: FolderNames, files: Digests, store: UnitStore
) -> str:
    """Return in words what is not as it was: an option, or the first file that differs, with its line."""
    for what, now in told.items():
        if (before := manifest.told.get(what, "")) != now:
            old, new = (set(words.split()) for words in (before, now))
            differing = [
                *(f"without {word}" for word in sorted(old - new)),
                *(f"with {word}" for word in sorted(new - old)),
            ]
            is_shown = what not in {"compiler", "seed"}
            return f"{what}: {', '.join(differing) or 'in another order'}" if is_shown else f"another {what}"
    return name_place(manifest, find_change(manifest, names, files), names, store)


def name_place(manifest: TextManifest, changed: str, names: FolderNames, store: UnitStore) -> str:
    """Return a file that has changed since a text was made, with the first line that differs if that is known."""
    known = store.read(f"{LINES}/{manifest.read[changed]}") if changed in manifest.read else None
    line = _first_other(known, _number_lines(Path(names.expand(changed)))) if known is not None else 0
    return f"{changed}:{line}" if line else changed


def _number_lines(path: Path) -> bytes:
    """Return four bytes for each line of a file, the same for equal lines."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return b""
    return b"".join(zlib.crc32(line).to_bytes(4, "big") for line in lines)


def _first_other(before: bytes, now: bytes) -> int:
    """Return the number of the first line that differs."""
    size = max(len(before), len(now))
    return next((at // 4 + 1 for at in range(0, size, 4) if before[at : at + 4] != now[at : at + 4]), 0)


def save(manifest: TextManifest, unit: str, names: FolderNames, store: UnitStore) -> None:
    """Write a unit's manifest, and remove the oldest of those with the same options."""
    for path, digest in manifest.read.items():  # not the system's and the toolkit's, which have a version
        if path.startswith(("<environment>", "<site>", "<source>")) and not store.has(f"{LINES}/{digest}"):
            store.write(f"{LINES}/{digest}", _number_lines(Path(names.expand(path))))
    content = zlib.compress(json.dumps(manifest._asdict()).encode(), 1)
    name = hashlib.sha256(content).hexdigest()[:16]
    store.write(f"{MANIFESTS}/{unit}/{manifest.call}-{name}", content)
    for old in [one for one in store.list_names(f"{MANIFESTS}/{unit}") if f"/{manifest.call}-" in one][MOST:]:
        store.remove(old)


def load(name: str, store: UnitStore) -> TextManifest | None:
    """Return a manifest of the store; None if it was removed, is damaged, or is another version's."""
    content = store.read(name)
    if content is None:
        return None
    try:
        found = json.loads(zlib.decompress(content))
        return TextManifest(**{**found, "absent": tuple(found["absent"])})
    except (KeyError, TypeError, ValueError, zlib.error):
        return None
