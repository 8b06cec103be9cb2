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

__all__ = ["MADE", "UNFINISHED", "cache_folder", "digest_of", "filled", "locked", "sha256_of", "write_atomically"]

CHUNK = 1 << 20
MADE = b"# made by fatwheel, no part of a source\n*\n"  # the .gitignore of a folder of finished files
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
    """Return `folder`, filled by `fill` on first use, and again where it is not any more what was filled in.

    `fill` works in a folder beside it that takes its name only when done, and a seal with the digest of its
    content is written last: a killed run leaves nothing that looks finished. Two runs fill it once.
    """
    if _is_sealed(folder):
        return folder
    with locked(folder, say):
        if _is_sealed(folder):
            return folder
        if folder.exists():
            say(f"{folder} is not what was put there, it is made again")
            shutil.rmtree(folder)
        partial = folder.with_name(f"{folder.name}{UNFINISHED}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            fill(partial)
            partial.rename(folder)
            with write_atomically(_seal(folder)) as seal:
                seal.write(digest_of(folder).encode())
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return folder


def _seal(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.sha256")


def _is_sealed(folder: Path) -> bool:
    seal = _seal(folder)
    return folder.is_dir() and seal.is_file() and seal.read_text(encoding="utf-8") == digest_of(folder)


def digest_of(folder: Path) -> str:
    """Return one sha256 of every file's path and content below `folder`, apart from what git keeps for itself."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if ".git" in path.relative_to(folder).parts or (path.is_dir() and not path.is_symlink()):
            continue
        content = str(path.readlink()) if path.is_symlink() else sha256_of(path)
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


@contextmanager
def write_atomically(path: Path, within: Path | None = None, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Yield a file that takes `path`'s place when the body ends well; a reader sees the old file or the new one.

    It is written in the folder `within` of the same file system, or beside `path`; a `durable` one is on the disk when
    it takes that place.
    """
    descriptor, temporary = _begin(within or path.parent, path.name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(descriptor)
        temporary.chmod(0o644)
        _take_place(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _begin(folder: Path, name: str) -> tuple[int, Path]:
    """Create a file of a name that no other run has, and the folder for it where there is none yet."""
    prefix, suffix = f".{name[:100]}.", UNFINISHED
    try:
        descriptor, path = tempfile.mkstemp(dir=folder, prefix=prefix, suffix=suffix)
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, path = tempfile.mkstemp(dir=folder, prefix=prefix, suffix=suffix)
    return descriptor, Path(path)


def _take_place(temporary: Path, path: Path) -> None:
    """Rename a file, and create the folder for it where there is none yet."""
    try:
        temporary.replace(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(path)


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
