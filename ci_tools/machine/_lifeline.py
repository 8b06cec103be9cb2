"""Runs a command and kills it when the parent process dies: a script for `process.run`, not a module to import.

Standard input is a pipe that nobody writes to. It is closed when the parent dies or wants the command to end. Then all
processes that the command started are killed, so no compiler of a killed run writes into the next run's files. Killing
the process group would not be enough: ninja gives each of its commands a process group of its own.
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

PR_SET_CHILD_SUBREAPER = 36  # prctl(2): orphaned descendants become children of this process, not of init
LONGEST = 5.0  # seconds in which killed processes have to end
PROCESSES = Path("/proc")


def main() -> int:
    """Run the command in `argv` and return its exit status; 128 plus the signal's number if a signal ended it."""
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
    """Kill all descendants, including those started meanwhile; only on Linux, where /proc lists them."""
    deadline = time.monotonic() + LONGEST
    while (found := _descendants()) and time.monotonic() < deadline:
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):  # already ended, or run by sudo as another user
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _descendants() -> set[int]:
    """Return the ids of all living descendants of this process."""
    children: dict[int, list[int]] = {}
    for path in PROCESSES.glob("[0-9]*/stat") if sys.platform == "linux" else ():
        with suppress(OSError, ValueError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            state, parent, threads = fields[0], fields[1], int(fields[17])
            if state not in "ZX" or threads > 1:  # the first thread may end before the others
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
