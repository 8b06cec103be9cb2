"""Runs a command for as long as whoever asked for it lives: a script for `process.run`, not a module to import.

Standard input is a pipe that nobody writes to. It ends when the asker does or wants the command to end, and then all
that the command started is killed: no compiler of a killed run is left to write into the next run's files. ninja gives
each of its commands a process group of its own, so the group is not enough.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # prctl(2): processes whose parent ends become children of ours, and not of init
LONGEST = 5.0  # seconds that killed processes may take to be gone
PROCESSES = Path("/proc")


def main() -> int:
    """Run the command in `argv` and return its exit status; 128 and the signal's number for one that a signal ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    threading.Thread(target=_watch, daemon=True).start()
    status = subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL)
    _end_descendants()
    return status if status >= 0 else 128 - status


def _watch() -> None:
    os.read(0, 1)
    _end_descendants()
    os.killpg(0, signal.SIGKILL)


def _end_descendants() -> None:
    """Kill all that the command started, and what those start while they are killed; Linux only says who that is."""
    deadline = time.monotonic() + LONGEST
    while (found := _descendants()) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):  # gone by now, or another user's by sudo
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _descendants() -> set[int]:
    """Return every living process below this one."""
    children: dict[int, list[int]] = {}
    for path in PROCESSES.glob("[0-9]*/stat") if sys.platform == "linux" else ():
        with suppress(OSError, ValueError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            state, parent, threads = fields[0], fields[1], int(fields[17])
            if state not in "ZX" or threads > 1:  # its first thread may end before the others
                children.setdefault(int(parent), []).append(int(path.parent.name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


if __name__ == "__main__":
    sys.exit(main())
