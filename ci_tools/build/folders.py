"""The folders of builds: the same on every machine, locked, and swept of what killed runs left."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path, PureWindowsPath

from filelock import FileLock, Timeout

from ci_tools.build.sdk.cuda_windows import WINDOWS
from ci_tools.errors import MachineError

LONGEST_PATH = 259  # characters, beside the zero that ends it (Win32, "Maximum Path Length Limitation")
PAGE = "how-to/build-for-windows-cuda.md#what-the-build-sees"


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


def refuse_long_paths(source: Path, files: Iterable[str], host: str) -> None:
    """Raise MachineError if a file in a build's copy of the source has a longer path than compilers of Windows take."""
    if host != WINDOWS:
        return
    longest = max(files, key=len, default="")
    if (length := len(str(source / longest))) > LONGEST_PATH:
        msg = f"{longest} has a path of {length} characters in {source}, expected at most {LONGEST_PATH} on Windows"
        raise MachineError(msg, hint="shorten its name, or leave it out of the source", page=PAGE)


def link_or_name(folder: Path, place: Path) -> Path:
    """Return `place`, a new link to `folder`; `folder` itself where links are not allowed, as often on Windows."""
    try:
        place.symlink_to(folder, target_is_directory=True)
    except OSError:
        return folder
    return place


def own_locks(base: Path) -> Path:
    """Return the folder of this user's locks. It does not depend on the cache: all runs share the scratch."""
    return _own(base, "locks")


def own_copies(base: Path) -> Path:
    """Return the folder of this user's copies of toolkits, which is on the file system of the builds."""
    return _own(base, "copies")


def own_compilers(base: Path) -> Path:
    """Return the folder with what each compiler of this user's builds says of itself."""
    return _own(base, "compilers")


def _own(base: Path, what: str) -> Path:
    folder = base / f"fatwheel-{what}-{os.getuid() if hasattr(os, 'getuid') else 0}"
    folder.mkdir(mode=0o700, exist_ok=True)
    refuse_stranger(folder)
    return folder


def sweep(base: Path) -> None:
    """Remove the folders of this user's builds that were killed: those whose lock is free.

    Root could remove other users' folders as well, and does not hold their locks.
    """
    for path in own_locks(base).glob("*.lock"):
        folder = base / path.name.removesuffix(".lock")
        if folder.is_dir() and not folder.is_symlink() and (os.name == "nt" or folder.lstat().st_uid == os.getuid()):
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


def name_build_folder(scratch: Path) -> dict[str, str]:
    """Return the variable by which setuptools compiles in a folder without the name of a Python, which -g repeats.

    That is build/temp.linux-x86_64-cpython-312 otherwise; the file is read after the project's own settings
    (distutils/dist.py, find_config_files).
    """
    settings = scratch / "setuptools.cfg"
    settings.write_text("[build]\nbuild_temp = build/temp\n", encoding="utf-8")
    return {"DIST_EXTRA_CONFIG": str(settings)}
