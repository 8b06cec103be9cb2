"""Finds the files that this run's own output goes to: by a redirection, `tee`, `script`, or a terminal that logs."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROCESSES = Path("/proc")  # Linux has it
STANDARD = (1, 2)  # stdout and stderr
PSEUDO_TERMINALS = range(136, 144)  # the major numbers of /dev/pts (Linux, admin-guide/devices.txt)


class FileIdentity(NamedTuple):
    """What tells a file from all others of this machine (POSIX, stat.h)."""

    device: int
    inode: int


def find_output_files() -> frozenset[FileIdentity]:
    """Return the files to which this run's stdout and stderr go, at once or by the programs that read them.

    A program that reads a pipe, or is behind a terminal, has the files that it writes open: `tee` does, and `script`.
    Only processes of the same user can be looked into, and only on Linux.
    """
    found: set[FileIdentity] = set()
    wanted = {name for one in STANDARD for name in _name_stream(one, found)}
    readers = _list_readers() if wanted else {}
    asked: set[str] = set()
    while wanted - asked:  # `2>&1 | grep -v note | tee log`
        processes = {process for name in wanted - asked for process in readers.get(name, ())}
        asked |= wanted
        wanted = {name for process in processes for name in _follow(process, found)}
    return frozenset(found)


def _follow(process: str, found: set[FileIdentity]) -> Iterator[str]:
    """Add the files that a process has open for writing, and yield the pipes and terminals that it writes to."""
    for opened in _list_opened(process):
        if not _reads_only(process, opened):
            yield from _name_stream(f"{PROCESSES}/{process}/fd/{opened}", found)


def _name_stream(opened: int | str, found: set[FileIdentity]) -> Iterator[str]:
    """Yield the name of an open pipe or terminal; add an open file to `found`."""
    with suppress(OSError):
        state = os.stat(opened)  # noqa: PTH116 - it may be a number
        if stat.S_ISREG(state.st_mode):
            found.add(FileIdentity(state.st_dev, state.st_ino))
        elif stat.S_ISFIFO(state.st_mode):
            yield f"pipe:[{state.st_ino}]"
        elif hasattr(os, "major") and os.major(state.st_rdev) in PSEUDO_TERMINALS:
            yield f"terminal:{os.minor(state.st_rdev)}"


def _list_readers() -> Mapping[str, list[str]]:
    """Return the processes that read each pipe, and those behind each terminal."""
    readers: dict[str, list[str]] = defaultdict(list)
    for process in (path.name for path in PROCESSES.glob("[0-9]*")):
        for opened in _list_opened(process):
            with suppress(OSError):
                name = os.readlink(f"{PROCESSES}/{process}/fd/{opened}")  # noqa: PTH115 - a Path takes ten times as long
                if name.endswith("/ptmx"):
                    readers[f"terminal:{_read_details(process, opened).get('tty-index')}"].append(process)
                elif name.startswith("pipe:") and _reads_only(process, opened):
                    readers[name].append(process)
    return readers


def _reads_only(process: str, opened: str) -> bool:
    return int(_read_details(process, opened).get("flags", "0"), 8) & os.O_ACCMODE == os.O_RDONLY


def _read_details(process: str, opened: str) -> dict[str, str]:
    """Return what Linux says of an open file: its flags, and the number of the terminal that it is behind (proc(5))."""
    with suppress(OSError):
        lines = (PROCESSES / process / "fdinfo" / opened).read_text(encoding="ascii").splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return {}


def _list_opened(process: str) -> list[str]:
    with suppress(OSError):  # it is another user's, or has ended
        return os.listdir(f"{PROCESSES}/{process}/fd")  # noqa: PTH208 - names are enough
    return []
