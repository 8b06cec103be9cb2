"""The processes of a group and their use of the machine: memory, open files, and space on the disk."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ci_tools.machine.process import output

OPEN_FILES = 1024  # of one process
BUFFER = 212992  # bytes: Linux's default size of a socket buffer, if /proc does not name another
OF_THE_KERNEL = ("VmPTE:", "VmSwap:", "HugetlbPages:")  # memory of a process that its resident pages do not include
DEAD = frozenset({b"Z", b"X"})
RUNNING = b"R"  # or ready to run; in any other state it waits: for input, a time, a signal, a disk, a child
ENTRY = 1024  # bytes that each folder entry counts: empty files fill a disk, too


class Task(NamedTuple):
    """A living process of a group: its id, its memory in bytes, its threads, its processor time, and its state."""

    pid: int
    memory: int
    threads: int
    seconds: float  # of it and of the ended processes that it started
    is_waiting: bool  # whether none of its threads is running or ready to run


def living(group: int) -> list[Task]:
    """Return the living processes of a group; their threads are known only on Linux."""
    if not os.path.exists("/proc/self/stat"):  # noqa: PTH110 - see _stat
        return living_by_ps(group)
    return [task for name in _list_members(group) if (task := _task(name, group))]


def _list_members(group: int) -> Iterator[str]:
    """Yield each process that is in a group, or that this process may not ask for its group.

    The call takes a tenth of the time of a process's files.
    """
    find_group = os.getpgid
    for name in os.listdir("/proc"):  # noqa: PTH208 - see _stat
        if name.isdigit():
            try:
                is_in = find_group(int(name)) == group
            except ProcessLookupError:
                continue
            except OSError:
                is_in = True
            if is_in:
                yield name


def _task(pid: str, group: int) -> Task | None:
    """Return a process if it is alive and in the group; it is alive as long as any of its threads is."""
    fields = _stat(f"/proc/{pid}")
    if not fields or int(fields[2]) != group:
        return None
    threads, seconds = int(fields[17]), _seconds(fields)
    if threads == 1 or fields[0] == RUNNING:
        return Task(int(pid), _pages(fields), threads, seconds, fields[0] != RUNNING) if fields[0] not in DEAD else None
    found = [(thread, _stat(f"/proc/{pid}/task/{thread}")) for thread in _list(f"/proc/{pid}/task")]
    alive = [(thread, state) for thread, state in found if state and state[0] not in DEAD]
    if not alive:
        return None
    thread, first = alive[0]  # of a dead first thread, the next: the kernel shows a thread below /proc as well
    return Task(int(thread), _pages(first), threads, seconds, all(state[0] != RUNNING for _, state in alive))


def _seconds(fields: Sequence[bytes]) -> float:
    """Return the processor time of a process and its ended children: utime, stime, cutime and cstime."""
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _stat(folder: str) -> list[bytes]:
    """Return the fields of a process from its state on, [] if it has ended (proc_pid_stat(5))."""
    try:
        with open(f"{folder}/stat", "rb") as file:  # noqa: PTH123 - every process is read, many times a second
            # The name of the process is in brackets, and may hold any byte.
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _pages(fields: Sequence[bytes]) -> int:
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE")


def _list(folder: str) -> list[str]:
    """Return the names in a folder of /proc; raise PermissionError if they are hidden from this process."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - see _stat
    except (FileNotFoundError, ProcessLookupError):
        return []


def count_tasks() -> int:
    """Return the number of this machine's threads, ended ones included, in one cheap read; 0 if it is not known."""
    try:
        with open("/proc/loadavg", "rb") as file:  # noqa: PTH123 - see _stat
            return int(file.read().split()[3].partition(b"/")[2])  # proc_loadavg(5)
    except OSError:
        return 0


def living_by_ps(group: int) -> list[Task]:
    """Return the living processes of a group from the output of ps: for systems without /proc."""
    rows = [line.split() for line in (output(["ps", "-A", "-o", "pid=,pgid=,rss=,time=,stat="]) or "").splitlines()]
    return [
        Task(int(pid), int(kib) * 1024, 1, _read_time(seconds), not state.startswith("R"))
        for pid, its_group, kib, seconds, state in rows
        if int(its_group) == group and not state.startswith("Z")
    ]


def _read_time(text: str) -> float:
    """Return the seconds of a time that ps shows: [[days-]hours:]minutes:seconds, on macOS with hundredths."""
    days, _, rest = text.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * float(days or 0)


def own_memory(task: Task) -> int:
    """Return a process's proportional set size (PSS) in bytes; its resident memory if the kernel does not tell it."""
    try:
        lines = Path(f"/proc/{task.pid}/smaps_rollup").read_text(encoding="ascii", errors="replace").splitlines()
    except ProcessLookupError:
        return 0
    except OSError:
        return task.memory
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def kernels_memory(task: Task) -> int:
    """Return a process's memory in bytes beyond its resident pages: page tables, swap and huge pages."""
    try:
        lines = Path(f"/proc/{task.pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(OF_THE_KERNEL))


def buffers(tasks: Sequence[Task], room: int) -> int:
    """Return how many bytes the sockets of some processes may hold; 0 if even all descriptors as sockets fit `room`."""
    each = 2 * _buffer()  # the last send may exceed the limit by as much as half of it
    if (most := each * sum(map(count_open, tasks))) <= max(room, 0):
        return 0
    found = [_sockets(task) for task in tasks]
    sockets = set[int]().union(*filter(None, found))
    return min(most, each * (len(sockets) + OPEN_FILES * found.count(None)))


def _sockets(task: Task) -> set[int] | None:
    """Return the inode numbers of a process's open sockets; None if they are hidden from this process."""
    try:
        return {status.st_ino for status in _descriptors(task) if stat.S_ISSOCK(status.st_mode)}
    except PermissionError:
        return None


@functools.cache
def _buffer() -> int:
    """Return the default size of a socket's send buffer on this machine, in bytes (socket(7))."""
    try:
        return int(Path("/proc/sys/net/core/wmem_default").read_text(encoding="ascii"))
    except OSError:
        return BUFFER


def count_open(task: Task) -> int:
    """Return the number of a process's open descriptors; the upper limit if they are hidden."""
    try:
        return len(_list(f"/proc/{task.pid}/fd"))
    except PermissionError:
        return OPEN_FILES


def _descriptors(task: Task) -> Iterator[os.stat_result]:
    """Yield the status of each open descriptor of a process; raise PermissionError if they are hidden."""
    for name in _list(f"/proc/{task.pid}/fd"):
        with suppress(FileNotFoundError, ProcessLookupError):
            yield os.stat(f"/proc/{task.pid}/fd/{name}")  # noqa: PTH116 - see _stat


def hides_files(task: Task, folder: Path) -> bool:
    """Whether a process may hold files whose size cannot be measured: unlinked files that are mapped but not open.

    A process can hide its descriptors even from its own user, by running a program that nobody may read (prctl(2)).
    """
    own = b" " + os.fsencode(folder) + b"/"
    try:
        _list(f"/proc/{task.pid}/fd")
        lines = Path(f"/proc/{task.pid}/maps").read_bytes().splitlines()
    except PermissionError:
        return True
    except OSError:
        return False
    return any(line.endswith(b" (deleted)") and own in line for line in lines)


def used_space(folder: Path) -> int:
    """Return the used bytes of the disk that holds a folder, whichever user they belong to."""
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def size_of(folder: Path, tasks: Sequence[Task]) -> int:
    """Return the bytes that a folder uses on its disk, with the unlinked files that the processes have open."""
    size = entries = 0
    shared = {(0, 0): 0}  # a file with two hard links counts once; an open one that is unlinked, once for all processes
    for status in (*_below(folder), *_find_unlinked_files(tasks)):
        entries += 1
        if status.st_nlink == 1:
            size += status.st_blocks
        else:
            shared[status.st_dev, status.st_ino] = status.st_blocks
    return (size + sum(shared.values())) * 512 + entries * ENTRY


def _below(folder: Path) -> Iterator[os.stat_result]:
    """Yield the status of everything below a folder, without following links; raise OSError if it is unreadable.

    It asks for thousands of files several times a second, so it enters no context for each.
    """
    waiting = [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    yield status
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue


def _find_unlinked_files(tasks: Iterable[Task]) -> Iterator[os.stat_result]:
    """Yield the status of each regular file that a process has open but that is unlinked."""
    for task in tasks:
        with suppress(OSError):
            yield from (found for found in _descriptors(task) if stat.S_ISREG(found.st_mode) and found.st_nlink == 0)
