"""Folders and files that several runs share: found whole or not at all, filled once, written in one step."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import platformdirs
from filelock import FileLock, Timeout

from ci_tools.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["UNFINISHED", "cache_folder", "filled", "locked", "sha256_of", "write_atomically"]

CHUNK = 1 << 20
UNFINISHED = ".partial"  # how the name of a file or folder ends that is being written
NOTICE_AFTER = 2.0  # seconds a lock may be awaited before the user is told


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's cache folder: `FATWHEEL_CACHE`, or the one this operating system has for it."""
    return Path(environ.get("FATWHEEL_CACHE") or platformdirs.user_cache_path("fatwheel")).absolute()


@contextmanager
def locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock beside `path` while the body runs; tell the user once when another run holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=NOTICE_AFTER)
    except Timeout:
        say(f"waiting for another run that works on {path}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def filled(folder: Path, fill: Callable[[Path], None], say: Callable[[str], None]) -> Path:
    """Return `folder`, filled by `fill` on first use.

    `fill` works in a folder beside it that takes its name only when done, so a killed run leaves nothing that
    looks finished. Two runs fill it once.
    """
    if folder.is_dir():
        return folder
    with locked(folder, say):
        if folder.is_dir():
            return folder
        partial = folder.with_name(f"{folder.name}{UNFINISHED}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            fill(partial)
            partial.rename(folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return folder


@contextmanager
def write_atomically(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes `path`'s place when the body ends well; a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.", suffix=UNFINISHED)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sha256_of(path: Path) -> str:
    """Return the file's sha256 in hex; raise MachineError where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise MachineError(msg) from None
    return digest.hexdigest()
