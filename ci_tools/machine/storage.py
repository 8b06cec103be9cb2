"""Folders and files that several runs share: filled once and written atomically, so no run sees half of one."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ci_tools.errors import MachineError
from ci_tools.machine.waits import EVERY
from ci_tools.model.names import Sha256

if TYPE_CHECKING:
    from filelock import FileLock

LOG = logging.getLogger(__name__)

CHUNK = 1 << 20
MADE = b"# made by fatwheel, no part of a source\n*\n"  # the .gitignore of a folder of finished files
UNFINISHED = ".partial"  # the suffix of a file or folder that is still being written
NOTICE_AFTER = 2.0  # seconds a lock may be awaited before the user is notified
LONGEST_WAIT = 3600.0  # seconds that another run may hold a lock
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # the error numbers of a full disk


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's cache folder: `FATWHEEL_CACHE`, or the operating system's default."""
    if named := environ.get("FATWHEEL_CACHE"):
        return Path(named).absolute()
    if sys.platform.startswith("linux"):  # XDG Base Directory Specification: no plan waits for platformdirs there
        return (Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fatwheel").absolute()
    import platformdirs  # noqa: PLC0415 - only a run that needs it waits for it

    return platformdirs.user_cache_path("fatwheel").absolute()


@contextmanager
def hold_lock(
    path: Path, say: Callable[[str], None], *, limit: float = LONGEST_WAIT, every: float = 2 * EVERY
) -> Iterator[None]:
    """Hold the lock beside `path` while the body runs; while waiting for it, report every few seconds.

    Raises MachineError if another run still holds the lock after `limit` seconds.
    """
    from filelock import FileLock  # noqa: PLC0415 - a plan takes no lock, and its import is a twentieth of its start

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(f"{path}.lock")
    _acquire(lock, path, say, limit, every)
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: FileLock, path: Path, say: Callable[[str], None], limit: float, every: float) -> None:
    from filelock import Timeout  # noqa: PLC0415 - see above

    began, words = time.monotonic(), 0
    while (waited := time.monotonic() - began) < limit:
        if words:
            say(f"waiting for another run that works on {path}{f': {waited:.0f} s' if words > 1 else ''}")
        pause = every if words else min(NOTICE_AFTER, every)
        words += 1
        with suppress(Timeout):
            lock.acquire(timeout=min(pause, limit - waited))
            return
    msg = f"{lock.lock_file}, the lock of {path}, is still held by another run after {waited:.0f} s"
    raise MachineError(msg, hint="end that run, or run the same command again once it is done")


def fill_once(folder: Path, fill: Callable[[Path], None], say: Callable[[str], None]) -> Path:
    """Return `folder`, filled by `fill` on first use, and filled again if its content has changed since.

    `fill` works in a temporary folder beside it, which is renamed when it is complete. A seal with the digest of the
    content is written last, so a killed run leaves nothing that looks finished. Of two parallel runs, one fills it.
    The files are read again for it only if one of them looks touched, as git judges it: a toolkit has gigabytes.
    """
    is_hit = _is_sealed(folder)
    LOG.debug("cache %s: %s", "hit" if is_hit else "miss", folder)
    if is_hit:
        return folder
    with hold_lock(folder, say):
        if _is_sealed(folder):
            return folder
        if folder.exists():
            say(f"{folder} has changed since it was filled, so it is filled again")
            shutil.rmtree(folder)
        partial = folder.with_name(f"{folder.name}{UNFINISHED}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            with naming(folder):
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
    seal, stamp = _seal(folder), folder.with_name(f"{folder.name}.stamp")
    if not folder.is_dir() or not seal.is_file():
        return False
    now = stamp_of(folder)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == now:
        return True
    if seal.read_text(encoding="utf-8") != digest_of(folder):
        return False
    with suppress(OSError, MachineError), write_atomically(stamp) as file:  # a cache may be read-only
        file.write(now.encode())
    return True


def stamp_of(folder: Path, ignored: str = ".git") -> str:
    """Return one sha256 over the path and state of every file below `folder`: what changes when a file is touched.

    Of a folder only its mode counts, as its times change with each entry; what is named as `ignored` does not.
    """
    stamps = []
    waiting, start = [str(folder)], len(str(folder))
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name == ignored:
                    continue
                found = entry.stat(follow_symlinks=False)
                state = [found.st_mode]
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    state += [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
                stamps.append((os.fsencode(entry.path[start:]), state))
    return hashlib.sha256(repr(sorted(stamps)).encode()).hexdigest()


def seal_of(folder: Path) -> str:
    """Return what tells the content of a folder that `fill_once` filled, or of a part of one; "" for any other."""
    for filled in (folder, *folder.parents)[:-1]:  # the root has no name
        if (seal := _seal(filled)).is_file():
            return f"{seal.read_text(encoding='utf-8')} {folder.relative_to(filled).as_posix()}"
    return ""


def digest_of(folder: Path) -> str:
    """Return one sha256 over the path and content of every file below `folder`, except those in `.git`."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if ".git" in path.relative_to(folder).parts or (path.is_dir() and not path.is_symlink()):
            continue
        content = str(path.readlink()) if path.is_symlink() else sha256_of(path)
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


@contextmanager
def write_atomically(path: Path, within: Path | None = None, *, durable: bool = True) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` if the body succeeds; a reader sees either the old file or the new one.

    The file is written in the folder `within`, on the same file system, or beside `path`. A `durable` file is flushed
    to the disk (fsync) before it replaces `path`. Raises MachineError if the disk is full.
    """
    with naming(path):
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


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raise MachineError with the file's or folder's name if the disk is full: the system's own error has none."""
    try:
        yield
    except OSError as error:
        why = _explain_no_room(error)
        if not why:
            if str(error.filename).endswith(UNFINISHED):
                error.filename = str(path)  # the name that a person knows
            raise
        msg = f"{path} cannot be written: {why}"
        raise MachineError(msg, hint="make room there and run the same command again") from error


def _explain_no_room(error: OSError) -> str:
    """Return the system's words for a full disk, or "" for another error; shutil.copytree has them in a list."""
    if error.errno in NO_ROOM:
        return error.strerror or ""
    said = str(error) if isinstance(error, shutil.Error) else ""
    return next((words for words in map(os.strerror, NO_ROOM) if words in said), "")


def _begin(folder: Path, name: str) -> tuple[int, Path]:
    """Create a file with a unique name, and its folder if that does not exist yet."""
    import tempfile  # noqa: PLC0415 - a plan that is shown writes nothing

    prefix, suffix = f".{name[:100]}.", UNFINISHED
    try:
        descriptor, path = tempfile.mkstemp(dir=folder, prefix=prefix, suffix=suffix)
    except FileNotFoundError:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, path = tempfile.mkstemp(dir=folder, prefix=prefix, suffix=suffix)
    return descriptor, Path(path)


def _take_place(temporary: Path, path: Path) -> None:
    """Rename a file, and create the target's folder if that does not exist yet."""
    try:
        temporary.replace(path)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.replace(path)


def refuse_change(path: Path, sha256: str) -> None:
    """Raise MachineError if a file that is being published has other content than when it was checked."""
    if sha256_of(path) != sha256:
        msg = f"{path.name} changed while it was published"
        raise MachineError(msg, hint="run the same command again once nothing writes to it")


def sha256_of(path: Path) -> Sha256:
    """Return the file's sha256 in hex; raise MachineError if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror}") from error
    return Sha256(digest.hexdigest())
