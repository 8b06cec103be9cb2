"""Runs untrusted code, such as a project's setup.py: confined, within limits, and with no process left behind.

On Linux, Landlock and seccomp confine the command. Guaranteed for a confined command and all processes it starts:

- It writes only below its folder. It reads only there, in the paths that the caller allows, and in this machine's
  programs, libraries and Python. It has only the given variables, an empty input, and no other open descriptor.
- It opens no socket to the outside, and reaches no memory, queue or semaphore that others share by number (System V).
- It cannot signal, trace, tune, watch or await outside processes, or read their clocks, and gains no privilege; as root
  it keeps only the rights of a file's owner. It cannot watch files for changes, and cannot read their extended
  attributes.
- Memory that is charged to no process is refused or counted: shared memory without a file, pipes, sockets, swap.
- It stays in its process group. The whole group is killed when its first process ends, when a limit is exceeded, and
  when this process ends, for whatever reason.

Landlock does not cover modes, owners, times and extended attributes, so calls that change them do nothing, not even
inside the folder: those for modes, owners and times report success. A new file has the mode it is created with, minus
022. So a library linked here can be loaded, but a program linked here cannot be started by its name: a linker makes a
file executable by changing its mode. An interpreter, the loader (`ld.so FILE`) and a file that is created as executable
run what the command wrote, as confined as the command. On a kernel before 6.12 the command cannot send signals at all,
not even to itself.

Not guaranteed: the command can ask whether a path outside exists, how large and old it is, and where a symbolic link
points, and of an outside process, by its number, whether it is there, its group, its priority and its processors.
Landlock has no right for that, seccomp sees an address and not a path, and programs ask the same of themselves. It
can lock a file that it may read, and can use the processors for as long as it may run. Memory, processes and
the room on the disk are measured many times a second but not continuously, so they can exceed their limits for that
long; files that take no room, such as empty ones, are counted every two seconds and at the end. The size of a file
cannot be measured if it is unlinked and mapped, or belongs to a process that nobody may inspect: while there is such a
file, all the space that the disk has lost since the start counts. The command can leave anything in its folder, such as
links to the outside and, as root, set-user-ID files. So keep the folder private, follow no link in it, read it with
`leftovers.read_safely` and remove it with `leftovers.clear`.
"""

from __future__ import annotations

import functools
import logging
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from ci_tools.addresses import redact
from ci_tools.errors import MachineError
from ci_tools.machine.process import tail
from ci_tools.sandbox.groups import Started
from ci_tools.sandbox.leftovers import MAX_NOTED, Journal, make_pipe, open_journal
from ci_tools.sandbox.usage import (
    OPEN_FILES,
    Task,
    buffers,
    count_tasks,
    hides_files,
    kernels_memory,
    living,
    own_memory,
    size_of,
    used_space,
)

if TYPE_CHECKING:
    from ci_tools.sandbox.groups import ForkServer, Group

LOG = logging.getLogger(__name__)

# The files that every program needs to start; none of them belongs to a user. Missing ones are skipped.
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
LOADER = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/alternatives")
DEVICES = ("/dev/random", "/dev/urandom")  # not /dev/zero: mapped, it is memory that is charged to no process
PYTHON = (sys.base_prefix, sys.base_exec_prefix, f"{sys.prefix}/bin", f"{sys.prefix}/pyvenv.cfg")
WRITABLE_DEVICES = ("/dev/null",)

READY = b"\x06"  # ASCII's "acknowledge"
MAX_LOGGED = 16 << 20  # bytes: nobody reads more of a build's output
THREADS_EACH = 50  # per process on average: with more, the command multiplies threads instead of processes
PAUSE = 0.03  # seconds between two looks at how many processes this machine has
LOOK_PAUSE = 0.1  # seconds between two looks at the processes of the command
REST = 0.02  # seconds in which output gathers: each time that this process is woken costs more than what it reads
MUCH = 1 << 15  # bytes, half of a pipe: where as much has come, the command may be waiting for room
SCAN_PAUSE = 0.1  # seconds between two looks at the folder
CALM_PAUSE = 2  # the same while its disk has not lost a part of what the command may write
SHARE = 10  # slow looks are rare ones: they take at most a tenth of the time
PATIENCE = 30  # seconds in which killed processes have to end


class Limits(NamedTuple):
    """The limits of a command, together with all processes it starts.

    Time counts in which they compute, and time in which all of them wait, each up to `seconds`; not the time in which
    they are ready to run and this machine is busy, so that a loaded machine ends nothing that an idle one lets finish.
    """

    seconds: float
    memory: int  # bytes, of all processes together; shared memory counts once
    processes: int
    written: int  # bytes by which its folder may grow


class Verdict(Enum):
    """Why a command ended: by itself, or by which limit."""

    ENDED = "ended"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    TOO_MANY_PROCESSES = "too many processes"
    TOO_MUCH_WRITTEN = "too much written"


class Confined(NamedTuple):
    """How a confined command ended: its exit status, the reason, its log, and its duration."""

    status: int
    verdict: Verdict
    log: Path
    seconds: float
    start: int  # the offset in the log, in bytes, at which its output begins
    journal: bytes = b""  # the bytes written into the journal


@functools.cache
def why_not() -> str:
    """Return why this machine cannot confine a command, "" if it can; it is tested by confining one."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "folder"
        folder.mkdir()
        limits = Limits(seconds=60, memory=1 << 30, processes=8, written=1 << 20)
        env = {"PATH": os.defpath}
        log = Path(scratch) / "log"
        try:
            ended = run_in_sandbox(["true"], folder=folder, readable=(), env=env, log=log, limits=limits)
        except MachineError as error:
            return error.message
        return "" if ended.status == 0 else f"a confined `true` fails: {tail(log, 1)}"


def run_in_sandbox(  # noqa: PLR0913 - each is a different part of the cage, and all have names
    command: Sequence[str | Path],
    *,
    folder: Path,
    readable: Iterable[Path],
    env: Mapping[str, str],
    log: Path,
    limits: Limits,
    trusted: bool = False,
    journal: Path | None = None,
    server: ForkServer | None = None,
) -> Confined:
    """Run `command` in `folder`, confined unless it is trusted, with its output appended to `log`.

    A `server` forks a prepared process for it, which is as confined as a started one, instead of starting a program.
    Its processes may write into `journal`, a FIFO that is created here; they cannot read it, change what was written,
    or replace it. `log` and `journal` must be outside `folder`. Raises MachineError if the command cannot be started
    or confined.
    """
    folder, log = folder.resolve(), log.resolve()
    _refuse(command, folder, env, log)
    pipe = journal and make_pipe(journal)
    rules = {
        "command": [str(part) for part in command],
        "env": dict(env),
        "folder": str(folder),
        "readable": [*PROGRAMS, *LOADER, *DEVICES, *PYTHON, *map(str, readable)],
        "writable_devices": WRITABLE_DEVICES,
        "journal": str(pipe or ""),
        "memory": limits.memory,
        "written": limits.written,
        "tasks": limits.processes * THREADS_EACH,
        "files": OPEN_FILES,
        "trusted": trusted,
        "ready": READY.decode(),
    }
    LOG.debug("run %s in a sandbox", redact(" ".join(map(str, command))))
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("ab", buffering=0) as sink:
        sink.write(f"$ {redact(' '.join(map(str, command)))}\n".encode())
        start = sink.tell()
        with open_journal(pipe) as noted:
            status, verdict = _supervise(rules, sink, limits, noted, server)
    return Confined(status, verdict, log, time.monotonic() - started, start, bytes(noted.content))


def _refuse(command: Sequence[str | Path], folder: Path, env: Mapping[str, str], log: Path) -> None:
    """Raise MachineError if the command cannot be started here."""
    if log.is_relative_to(folder):
        raise MachineError(f"{log} is in {folder}, where a confined command could write to it; expected a log outside")
    if os.name != "posix":
        raise MachineError("a command can be held to its limits on Linux and macOS only")
    if shutil.which(command[0], path=env.get("PATH", os.defpath)) is None:
        raise MachineError(f"{command[0]} cannot be started: there is no such command")


def _supervise(
    rules: dict[str, object], sink: IO[bytes], limits: Limits, journal: Journal, server: ForkServer | None
) -> tuple[int, Verdict]:
    """Run the command until it ends or exceeds a limit, then kill its group; return its exit status and the reason."""
    folder = Path(str(rules["folder"]))
    before = size_of(folder, ())
    group: Group = server.fork(rules) if server else Started(rules)
    try:
        heard = _Heard(group, sink, min(limits.written, MAX_LOGGED), journal)
        try:
            verdict = _watch_group(group, heard, watch := _Watch(group, folder, before, limits))
        finally:
            _end(group)
        heard.rest()
    finally:
        status = group.close()
    if not heard.ready and verdict is Verdict.ENDED:
        said = tail(Path(sink.name), 1).removeprefix("OSError: ")  # the end of the script's traceback
        raise MachineError(said or "the confined process was killed as it started")
    if verdict is Verdict.ENDED:
        return status, heard.verdict or watch.written() or Verdict.ENDED
    return -signal.SIGKILL, verdict


def _end(group: Group) -> None:
    """Kill the group until no process in it is alive; raise MachineError if some survive for `PATIENCE` seconds."""
    deadline = time.monotonic() + PATIENCE
    while not group.has_ended() or living(group.pid):
        with suppress(ProcessLookupError, PermissionError):  # macOS raises the latter for a group that is ending
            os.killpg(group.pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise MachineError(f"process group {group.pid} was killed and is still there after {PATIENCE} seconds")
        time.sleep(0.005)


def _watch_group(group: Group, heard: _Heard, watch: _Watch) -> Verdict:
    """Wait until the command ends or exceeds a limit, and return which."""
    while not group.has_ended():
        heard.wait(PAUSE)
        if verdict := heard.verdict or watch.verdict():
            return verdict
    return Verdict.ENDED


class _Heard:
    """The output of a command, written to its log up to a limit."""

    def __init__(self, group: Group, sink: IO[bytes], most: int, journal: Journal) -> None:
        self.source = group.output
        self.end = group.end
        self.sink = sink
        self.most = most
        self.journal = journal
        self.ready = False
        self.length = 0
        self.open = True
        self.taken = MUCH  # bytes of the last look
        os.set_blocking(self.source, False)

    @property
    def verdict(self) -> Verdict | None:
        """TOO_MUCH_WRITTEN if the output or the journal is too large, else None."""
        too_much = self.length > self.most or len(self.journal.content) > MAX_NOTED
        return Verdict.TOO_MUCH_WRITTEN if too_much else None

    def wait(self, seconds: float) -> None:
        """Wait at most some seconds for output or for the end; return soon after some was read."""
        if self.end is not None and self.taken < MUCH and select.select([self.end], [], [], REST)[0]:
            return
        if not self._takes(seconds, self.end) and not self.open:
            time.sleep(seconds if self.journal.source is self.end is None else 0)

    def rest(self) -> None:
        """Read what is still in the pipes, without waiting for other processes that hold them open."""
        while self._takes(0):
            pass

    def _takes(self, seconds: float, end: int | None = None) -> bool:
        """Read output that comes within some seconds, or until the end; return whether there was any."""
        sources = (self.source if self.open else None, self.journal.source, end)
        ready = select.select([source for source in sources if source is not None], [], [], seconds)[0]
        before = self.length + len(self.journal.content)
        if self.source in ready:
            self._take()
        if self.journal.source in ready:
            self.journal.take()
        self.taken = self.length + len(self.journal.content) - before
        return bool(ready)

    def _take(self) -> None:
        text = os.read(self.source, 1 << 20)
        self.open = bool(text)
        if not self.ready and text.startswith(READY):
            self.ready, text = True, text.removeprefix(READY)
        room = max(self.most - self.length, 0)
        self.length += len(text)
        self.sink.write(text[:room])


class _Watch:
    """Measures what a process group uses; the more a measurement costs, the rarer it is."""

    def __init__(self, group: Group, folder: Path, before: int, limits: Limits) -> None:
        self.group = group.pid
        self.lifeline = group.lifeline
        self.folder = folder
        self.before = before
        self.used = used_space(folder)
        self.limits = limits
        self.next_look = time.monotonic() + PAUSE
        self.next_scan = 0.0
        self.looked = self.scanned = time.monotonic()
        self.crowd = count_tasks()
        self.next_count = 0.0
        self.waited = 0.0  # seconds in which no process was running or ready to run

    def verdict(self) -> Verdict | None:
        """Return the limit that is exceeded; None if there is none or no measurement is due."""
        now = time.monotonic()
        if now < self.next_look and not self._is_crowded(now):
            return None
        tasks = living(self.group)
        found = self._check_tasks(tasks)
        self.next_look = _due(now, LOOK_PAUSE)
        if found or now < self.next_scan:
            return found
        is_calm = used_space(self.folder) - self.used < self.limits.written // 8
        if is_calm and now < self.scanned + CALM_PAUSE:
            return None
        self.scanned = now
        found = self.written(tasks)
        self.next_scan = _due(now, SCAN_PAUSE)
        return found

    def _is_crowded(self, now: float) -> bool:
        """Whether this machine has got so many more tasks since last asked that the group may be over its limit.

        Processes that fork without end would make each look slower, and so the next one later, than the last.
        """
        if now < self.next_count:
            return False
        self.next_count = now + PAUSE
        before, found = self.crowd, count_tasks()
        self.crowd = found if found > before + self.limits.processes else min(before, found)
        return self.crowd > before

    def _check_tasks(self, tasks: Sequence[Task]) -> Verdict | None:
        now, before = time.monotonic(), self.looked
        self.looked = now
        self.waited += (now - before) * all(task.is_waiting for task in tasks)
        if max(self.waited, sum(task.seconds for task in tasks)) > self.limits.seconds:
            return Verdict.TIMED_OUT
        tasks = [task for task in tasks if task.pid != self.lifeline]
        most = self.limits.processes
        if len(tasks) > most or sum(task.threads for task in tasks) > most * THREADS_EACH:
            return Verdict.TOO_MANY_PROCESSES
        room = self.limits.memory - sum(map(kernels_memory, tasks))
        room -= buffers(tasks, room - sum(task.memory for task in tasks))
        if sum(task.memory for task in tasks) <= room:
            return None
        # Above, a page that a process shares with its children counts for each of them; here it counts once.
        return Verdict.OUT_OF_MEMORY if sum(map(own_memory, tasks)) > room else None

    def written(self, tasks: Sequence[Task] = ()) -> Verdict | None:
        """Return TOO_MUCH_WRITTEN if the folder has grown by more than its limit."""
        try:
            grown = size_of(self.folder, tasks) - self.before
        except OSError:  # a folder too deep or without read permission: created to hide its content
            return Verdict.TOO_MUCH_WRITTEN
        if any(hides_files(task, self.folder) for task in tasks):
            grown = max(grown, used_space(self.folder) - self.used)
        return Verdict.TOO_MUCH_WRITTEN if grown > self.limits.written else None


def _due(since: float, pause: float) -> float:
    now = time.monotonic()
    return now + max(pause, (now - since) * SHARE)


# -- what a group uses
