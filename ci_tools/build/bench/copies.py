"""Copies of fetched folders that builds work with, kept for the next build as long as nobody has changed them.

A torch has ten thousand files and a toolkit a quarter of a gigabyte, and to copy both takes longer than many a build.
A build takes a kept copy by renaming it, and afterwards it is renamed back, so that its path in the build is the same
in every build. Nothing that a build writes reaches the next one: a copy that is not as it was made is thrown away.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.machine.storage import seal_of, stamp_of
from ci_tools.model.files import COPIED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST = 3  # copies of one folder, for builds that run at a time
LONGEST = 86400.0  # seconds that a copy is kept for a next build
ROOM = 20 << 30  # bytes that are free on a disk where copies are kept
BYTECODE = "__pycache__"  # what Python compiles of a copy's modules in a build, which the next one does not get
STAMP = ".stamp"


class _Copy(NamedTuple):
    """A copy in a build: its name among the kept ones, and how its files were when it was made."""

    name: str
    stamp: str


class Copies:
    """The copies of one build; `kept` is the folder of those that no build works with, on the builds' file system."""

    def __init__(self, kept: Path) -> None:
        self.kept = kept
        self._taken: dict[Path, _Copy] = {}

    def put(self, place: Path, first: Path, *over: Path) -> Path:
        """Put a copy of the first folder at `place`, and copies of the others over it; return `place`."""
        name = _name(first, *over) if self._may_keep(first) else ""
        if stamp := self._take(name, place) if name else "":
            self._taken[place] = _Copy(name, stamp)
            return place
        for folder in (first, *over):
            shutil.copytree(folder, place, symlinks=True, copy_function=_copy_dated, dirs_exist_ok=folder != first)
        if name:
            self._taken[place] = _Copy(name, stamp_of(place, BYTECODE))
        return place

    def _may_keep(self, source: Path) -> bool:
        """Whether a copy may stay: on the disk that has the source, so that it takes no memory, and not on a full one.

        On Windows a file's times do not tell whether somebody wrote into it (`st_ctime` is when it was created).
        """
        if os.name != "posix" or source.stat().st_dev != self.kept.stat().st_dev:
            return False
        return shutil.disk_usage(self.kept).free > ROOM

    def _take(self, name: str, place: Path) -> str:
        """Move a kept copy to `place` and return its stamp; "" if there is none whose files are as they were made."""
        for stamp in sorted(self.kept.glob(f"{name}.*{STAMP}")):
            taken = place.with_name(f"{place.name}.{stamp.stem}")  # where a spoilt one is removed with the build
            with suppress(OSError):  # another build takes it at this moment, or a folder in it was closed to us
                said = stamp.read_text(encoding="utf-8")
                stamp.with_suffix("").rename(taken)
                stamp.unlink(missing_ok=True)
                for compiled in [*taken.rglob(BYTECODE)]:  # the next build would run it without a look
                    shutil.rmtree(compiled)
                if stamp_of(taken, BYTECODE) == said:
                    taken.rename(place)
                    return said
            shutil.rmtree(taken, ignore_errors=True)
        return ""

    def give_back(self) -> None:
        """Keep the copies for later builds, and remove those that have waited too long for one."""
        for place, (name, stamp) in self._taken.items():
            if place.is_dir() and len([*self.kept.glob(f"{name}.*{STAMP}")]) < MOST:
                kept = self.kept / f"{name}.{place.stat().st_ino}"
                with suppress(OSError):
                    place.rename(kept)
                    (self.kept / f"{kept.name}{STAMP}").write_text(stamp, encoding="utf-8")
        self._taken.clear()
        for folder in self._old():
            folder.with_name(f"{folder.name}{STAMP}").unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)

    def _old(self) -> Iterator[Path]:
        """Yield the copies that were given back long ago; renaming a folder sets its `st_ctime` (POSIX, rename)."""
        for folder in self.kept.iterdir():
            with suppress(FileNotFoundError):
                if folder.is_dir() and time.time() - folder.stat().st_ctime > LONGEST:
                    yield folder


def _copy_dated(source: str, target: str) -> None:
    """Copy a file with the same time on every machine: nvcc's -lineinfo writes a header's into the object."""
    shutil.copy2(source, target)
    if not source.endswith(".py"):  # a module's time stands in its bytecode
        os.utime(target, (COPIED, COPIED))


def _name(*folders: Path) -> str:
    """Return a name for the content of folders, from the seals of the cache; "" if one of them has no seal."""
    seals = [seal_of(folder) for folder in folders]
    return hashlib.sha256("\n".join(seals).encode()).hexdigest()[:16] if all(seals) else ""
