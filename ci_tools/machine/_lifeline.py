"""Runs a command and kills it when the parent process dies: a script for `process.run`, not a module to import.

Standard input is a pipe that nobody writes to. It is closed when the parent dies or wants the command to end. Then all
processes that the command started are killed, so no compiler of a killed run writes into the next run's files. Killing
the process group would not be enough: ninja gives each of its commands a process group of its own.
"""

from __future__ import annotations

import _ctypes
import _thread
import os
import sys
import time

# It starts before every command, and the modules `pathlib`, `signal`, `subprocess` and `threading` would take three
# times as long to import as all the rest; `ctypes`, half as long as Python itself takes to start.
SIGKILL, SIGPIPE, SIGXFSZ = 9, 13, 25  # on Linux and macOS
PR_SET_CHILD_SUBREAPER = 36  # prctl(2): orphaned descendants become children of this process, not of init
LONGEST = 5.0  # seconds in which killed processes have to end
PROCESSES = "/proc"


def main() -> int:
    """Run the command in `argv` and return its exit status; 128 plus the signal's number if a signal ended it."""
    if sys.platform == "linux":
        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    _thread.start_new_thread(_watch, ())
    status = os.waitstatus_to_exitcode(os.waitpid(_start(sys.argv[1:]), 0)[1])
    if _has_children():
        _end_descendants()
    return status if status >= 0 else 128 - status


def _start(command: list[str]) -> int:
    """Start a command with an empty input, and the signals that Python ignores as usual; return its id."""
    nothing = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    return os.posix_spawnp(command[0], command, os.environ, file_actions=nothing, setsigdef=[SIGPIPE, SIGXFSZ])


def _has_children() -> bool:
    """Whether the command left a process behind: orphans are children of this process, where there is a subreaper.

    To look through /proc takes half as long as to start Python.
    """
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass  # it has ended
    except ChildProcessError:
        return False
    return True


def _watch() -> None:
    os.read(0, 1)
    _end_descendants()
    os.killpg(0, SIGKILL)


def _end_descendants() -> None:
    """Kill all descendants, including those started meanwhile; only on Linux, where /proc lists them."""
    deadline = time.monotonic() + LONGEST
    while (found := _descendants()) and time.monotonic() < deadline:
        for pid in found:
            _kill(pid)
        time.sleep(0.01)


def _kill(pid: int) -> None:
    try:  # noqa: SIM105 - see the imports
        os.kill(pid, SIGKILL)
    except (ProcessLookupError, PermissionError):  # already ended, or run by sudo as another user
        pass


def _descendants() -> set[int]:
    """Return the ids of all living descendants of this process."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(PROCESSES) if sys.platform == "linux" else ():  # noqa: PTH208 - see the imports
        fields = _stat(name) if name.isdigit() else []
        # The first thread may end before the others.
        if fields and (fields[0] not in {b"Z", b"X"} or int(fields[17]) > 1):
            children.setdefault(int(fields[1]), []).append(int(name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def _stat(pid: str) -> list[bytes]:
    """Return the fields of a process from its state on (proc_pid_stat(5)); none if it has ended."""
    try:
        with open(f"{PROCESSES}/{pid}/stat", "rb") as file:  # noqa: PTH123 - see the imports
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main())
