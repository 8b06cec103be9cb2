"""Temporary folders of a run: locked while in use, and removed when it ends, or by the next run if it was killed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ci_tools.errors import MachineError
from ci_tools.machine.runner import machine

MEMORY = Path("/dev/shm")  # noqa: S108 - only the user's own folder below it is used
SHARE = 4  # files there take at most a quarter of this machine's memory


def remove(folder: Path) -> None:
    """Remove a folder; ignore files that cannot be removed."""
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield an empty folder below the system's temporary folder and remove it afterwards, and those of killed runs."""
    with workplace(own_folder(Path(tempfile.gettempdir()))) as folder:
        yield folder


def own_folder(temporary: Path) -> Path:
    """Return the user's own folder below `temporary`; raise MachineError if it is not private to the user."""
    user = os.getuid() if os.name == "posix" else "here"  # Windows gives each user a folder for temporary files
    folder = temporary / f"fatwheel-{user}"
    with suppress(FileExistsError):  # the existing path may be something else than a folder
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    is_private = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    if os.name == "posix" and not is_private:
        msg = f"{folder} can be written to by other users, expected a folder of your own"
        raise MachineError(msg, hint="remove it, or set TMPDIR to a folder of your own")
    return folder


def find_memory(needed: int) -> Path | None:
    """Return the user's own folder in a file system that is memory; None without room for `needed` bytes there.

    Thousands of files that are made and removed again and again cost several times as much on a disk. A container's
    file system of that kind is small by default, and often starts no program.
    """
    try:
        found = os.statvfs(MEMORY)
        fits = needed <= min(found.f_bavail * found.f_frsize, machine().memory // SHARE)
        return own_folder(MEMORY) if fits and not found.f_flag & os.ST_NOEXEC else None
    except (AttributeError, OSError, MachineError):  # Windows, macOS, or somebody else's folder
        return None


@contextmanager
def workplace(parent: Path, remove: Callable[[Path], object] = remove) -> Iterator[Path]:
    """Yield an empty folder, locked while in use, and remove it afterwards, along with the folders of killed runs."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = parent / os.urandom(6).hex()  # short: the path of a Unix socket has at most 108 bytes (unix(7))
    lock = FileLock(f"{folder}.lock")
    with FileLock(parent / "sweep"):  # so that no other run mistakes the new lock for an abandoned one
        _sweep(parent, remove)
        lock.acquire()
    try:
        folder.mkdir()
        yield folder
    finally:
        remove(folder)
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)


def _sweep(parent: Path, remove: Callable[[Path], object]) -> None:
    """Remove the folders whose lock nobody holds; if a folder remains, keep its lock file for the next run."""
    for path in parent.glob("*.lock"):
        with suppress(Timeout, PermissionError), FileLock(path, timeout=0):  # Windows cannot remove a lock file in use
            remove(path.with_suffix(""))
            if not path.with_suffix("").exists():
                path.unlink(missing_ok=True)
