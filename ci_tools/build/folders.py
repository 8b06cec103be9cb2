"""The folders of builds: the same on every machine, locked, and swept of what killed runs left."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path, PureWindowsPath

from filelock import FileLock, Timeout

from ci_tools.errors import MachineError

__all__ = [
    "base_folder",
    "link_or_name",
    "own_locks",
    "own_temporary",
    "refuse_stranger",
    "short_folder",
    "sweep",
]


def base_folder() -> Path:
    """Return the folder that contains every build's own folder, the same on every machine."""
    if os.name == "posix":
        return Path("/tmp")  # noqa: S108 - see refuse_stranger
    base = Path(short_folder(tempfile.gettempdir()))
    base.mkdir(exist_ok=True)
    return base


def short_folder(temporary: str) -> str:
    """Return the folder of builds on Windows, from that of temporary files, which is the user's own and long.

    cl.exe and nvcc.exe take no path of more than 260 characters, and torch has headers whose path has 119 (2.13.0).
    """
    return str(PureWindowsPath(PureWindowsPath(temporary).anchor) / "fatwheel")


def link_or_name(folder: Path, place: Path) -> Path:
    """Return `place`, a new link to `folder`; `folder` itself where links are not allowed, as often on Windows."""
    try:
        place.symlink_to(folder, target_is_directory=True)
    except OSError:
        return folder
    return place


def own_locks(base: Path) -> Path:
    """Return the folder of this user's locks. It does not depend on the cache: all runs share the scratch."""
    folder = base / f"fatwheel-locks-{os.getuid() if hasattr(os, 'getuid') else 0}"
    folder.mkdir(mode=0o700, exist_ok=True)
    refuse_stranger(folder)
    return folder


def sweep(base: Path) -> None:
    """Remove the folders of builds that were killed: those whose lock is free."""
    for path in own_locks(base).glob("*.lock"):
        folder = base / path.name.removesuffix(".lock")
        if folder.is_dir() and not folder.is_symlink():
            with suppress(Timeout), FileLock(path, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)


def refuse_stranger(folder: Path) -> None:
    """Raise MachineError for a folder in a world-writable place that another user made, or that is a link."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or (hasattr(os, "getuid") and found.st_uid != os.getuid()):
        msg = f"{folder} belongs to another user, expected a folder of the user who builds"
        raise MachineError(msg, hint="remove it, or build as the user who owns it")


def own_temporary(folder: Path) -> dict[str, str]:
    """Return the variables that give a build its own temporary folder, which is removed even if the build is killed."""
    folder.mkdir()
    return dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
