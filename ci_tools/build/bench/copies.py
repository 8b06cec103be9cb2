"""Copies of fetched folders, and of what pip installed: later builds take them as long as nobody has changed them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ci_tools.machine.installers import PIP
from ci_tools.machine.python import Environment
from ci_tools.machine.storage import seal_of, stamp_of
from ci_tools.model.files import COPIED

MOST = 3  # copies of one folder, for builds that run at a time
LONGEST = 86400.0  # seconds that a copy is kept for a next build
ROOM = 20 << 30  # bytes that are free on a disk where copies are kept
BYTECODE = "__pycache__"  # what Python compiles of a copy's modules in a build, which the next one does not get
STAMP = ".stamp"
BUILDS = b"Building wheel"  # pip's line for a requirement without a wheel: how it is compiled depends on more
SCRIPT = b"#!"


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
        name = _name(first, *over) if self._may_keep(first) else ""  # without a name it is not kept
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
                kept = self.kept / f"{name}.{place.stat().st_ino}"  # a name of its own: no other folder has the number
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


class _Installation(NamedTuple):
    """A kept installation: its folder, how its files were when it was made, and the environment that it was made in."""

    folder: Path
    stamp: str
    origin: Path


class Installations:
    """The installations of one run, below a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, _Installation] = {}

    def fill(self, environment: Environment, asked: Sequence[str], install: Callable[[], None]) -> None:
        """Fill an environment by `install`, or with what that installed before; `asked` is all that decides it."""
        if environment.installer is not PIP or any(environment.packages.glob("*.dist-info")):
            install()  # uv needs no help, and with packages that were there before, pip may install fewer
            return
        settings = {name: value for name, value in environment.variables.items() if name.startswith("PIP_")}
        key = json.dumps([str(environment.python.resolve()), settings, *asked], sort_keys=True)
        known = self._known.get(key)
        if known and stamp_of(known.folder) == known.stamp:
            _restore(known, environment)
            return
        before, start = {*_files(environment.path)}, environment.log.stat().st_size
        install()
        with environment.log.open("rb") as log:
            log.seek(start)  # only what this installation has printed
            if BUILDS not in log.read():
                self._known[key] = self._keep(environment, before)

    def _keep(self, environment: Environment, before: set[Path]) -> _Installation:
        folder = self._folder / str(len(self._known))
        for path in {*_files(environment.path)} - before:
            kept = folder / path.relative_to(environment.path)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, kept, follow_symlinks=False)
        folder.mkdir(exist_ok=True)
        return _Installation(folder, stamp_of(folder), environment.path)


@contextmanager
def open_installations(copies: Path) -> Iterator[Installations]:
    """Yield the installations of a run, in a folder that is removed afterwards; `copies` is the user's own folder."""
    with tempfile.TemporaryDirectory(dir=copies, ignore_cleanup_errors=True) as folder:
        yield Installations(Path(folder))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def _restore(known: _Installation, environment: Environment) -> None:
    """Copy an installation into an environment; its scripts name the interpreter by its path."""
    shutil.copytree(known.folder, environment.path, symlinks=True, dirs_exist_ok=True)
    scripts = known.folder / environment.scripts.relative_to(environment.path)
    for path in (environment.scripts / kept.name for kept in scripts.glob("*")):
        content = path.read_bytes()
        if content.startswith(SCRIPT):
            path.write_bytes(content.replace(bytes(known.origin), bytes(environment.path)))
    with environment.log.open("a", encoding="utf-8") as log:
        log.write(f"what pip installed into {known.origin} is copied: the same is required\n")
