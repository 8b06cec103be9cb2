"""The process group of one command: of a program that is started, or forked from a process that is prepared.

Such a process is kept for the next caller: each start then takes a tenth of its processor time. A program that is
started without it needs two Pythons before its first line: one that ends it with its parent, and one that confines it.
"""

from __future__ import annotations

import atexit
import json
import marshal
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Generic, Protocol, TypeVar

from ci_tools.errors import MachineError
from ci_tools.machine.process import LIFELINE, NOWHERE

SCRIPTS = Path(__file__).parent
CONFINED = (sys.executable, "-I", "-S", str(SCRIPTS / "_confined.py"))
SERVER = SCRIPTS / "_fork_server.py"  # whose frames are below those of each forked process
PATIENCE = 10.0  # seconds in which a server has to end its processes
Kept = TypeVar("Kept")
STARTER = (sys.executable, "-I", "-S", Path(__file__).with_name("_starter.py"))


class Group(Protocol):
    """The processes of one command."""

    pid: int  # of its first process, by which the group is named
    lifeline: int  # the process of `_lifeline.py`, which no limit counts; 0 if there is none
    output: int  # the descriptor from which its output is read

    @property
    def end(self) -> int | None:
        """A descriptor that is readable once the first process has ended, where the system has such."""
        ...

    def has_ended(self) -> bool:
        """Whether the first process has ended."""
        ...

    def close(self) -> int:
        """Take leave of the ended group; return the exit status, over 128 if a signal ended it."""
        ...


class Started:
    """The group of a program that is started for a command; it ends with this process (`_lifeline.py`)."""

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self.process = subprocess.Popen(
            [*LIFELINE, *CONFINED, marshal.dumps(dict(rules)).hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=rules["folder"],
            start_new_session=True,
        )
        self.pid = self.lifeline = self.process.pid
        self.output = _descriptor(self.process.stdout)
        self.end = _watch_end(self.pid)

    def has_ended(self) -> bool:
        """Whether the first process has ended."""
        return self.process.poll() is not None

    def close(self) -> int:
        """Take leave of the ended group; return the exit status."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        if self.end is not None:
            os.close(self.end)
        return self.process.returncode


class ForkServer:
    """A prepared process that forks another for each command: what all of them need, it has read and imported once.

    Its program gets two more arguments: the path of `_fork_server.py`, which it loads, and a descriptor, with which it
    calls `serve`. Only Linux can fork confined processes. A server serves one thread, one command at a time.
    """

    def __init__(self, command: Sequence[str | Path], env: Mapping[str, str]) -> None:
        """Start the program. Raises MachineError with the last line of its output if it does not serve."""
        answers, theirs = os.pipe()
        self.answers = os.fdopen(answers, "rb")
        try:
            self.process = subprocess.Popen(
                [*map(str, command), str(SERVER), str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=NOWHERE,
                env=dict(env),
                pass_fds=(theirs,),
                start_new_session=True,
            )
        except OSError as error:
            self.answers.close()
            raise MachineError(f"{command[0]} cannot be started: {error.strerror}") from error
        finally:
            os.close(theirs)
        self.output = _descriptor(self.process.stdout)
        self.is_idle = True
        try:
            self.read_answer()
        except BaseException:
            self.close()
            raise

    def fork(self, rules: Mapping[str, Any]) -> Forked:
        """Fork a process for a command. Raises MachineError if the server has ended."""
        self.is_idle = False
        return Forked(self, self.ask(rules))

    def release(self) -> int:
        """Take leave of the forked process that has ended, and return its exit status."""
        status = self.ask(None)
        self.is_idle = True
        return status

    @property
    def is_waiting(self) -> bool:
        """Whether it lives, and has taken leave of all that it forked."""
        return self.is_idle and self.process.poll() is None

    def ask(self, request: object) -> int:
        """Return the server's answer to a request. Raises MachineError if it has ended."""
        with suppress(BrokenPipeError):  # there will be no answer either
            if self.process.stdin:
                self.process.stdin.write(f"{json.dumps(request)}\n".encode())
                self.process.stdin.flush()
        return int(self.read_answer())

    def read_answer(self) -> Any:  # noqa: ANN401 - what JSON holds
        """Return the server's next answer. Raises MachineError with the last line of its output if it has ended."""
        if line := self.answers.readline():
            return json.loads(line)
        self.process.wait()
        os.set_blocking(self.output, False)
        lines = (os.read(self.output, 1 << 16) if self.process.stdout else b"").decode(errors="replace").splitlines()
        status = self.process.returncode
        how = f"it was killed by {signal.Signals(-status).name}" if status < 0 else f"it ended with status {status}"
        msg = f"the process that starts the project's builds is gone: {lines[-1] if lines else how}"
        raise MachineError(msg, hint="start again: what was finished is kept. Where memory ran out, `dmesg` says so")

    def close(self) -> None:
        """End the server with all that it forked."""
        if self.process.stdin:
            with suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its forked process then gets the signal that it asked for
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.answers.close()


class Forked:
    """The group of a process that was forked for a command; it ends with the server, and so with this process."""

    lifeline = 0

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.server = server
        self.pid = pid
        self.output = server.output
        self.end = os.pidfd_open(pid)

    def has_ended(self) -> bool:
        """Whether the first process has ended."""
        return bool(select.select([self.end], [], [], 0)[0])

    def close(self) -> int:
        """Take leave of the ended group; return the exit status."""
        os.close(self.end)
        status = self.server.release()
        return status if status >= 0 else 128 - status


def _watch_end(pid: int) -> int | None:
    """Return a descriptor that is readable once a child process has ended; None where the system has none."""
    if sys.platform == "linux":
        with suppress(OSError):  # Linux before 5.3
            return os.pidfd_open(pid)
    return None


def _descriptor(pipe: IO[bytes] | None) -> int:
    return pipe.fileno() if pipe else -1


class Pool(Generic[Kept]):
    """Things that this process has prepared and nobody uses; all are closed when the process ends."""

    def __init__(self, is_usable: Callable[[Kept], bool], close: Callable[[Kept], None]) -> None:
        self.is_usable, self.close = is_usable, close
        self.unused: dict[int, list[Kept]] = {}  # by process: a forked one must not talk to the server of its parent
        atexit.register(self.empty)

    @contextmanager
    def lend(self, prepare: Callable[[], Kept], fits: Callable[[Kept], bool] = lambda _: True) -> Iterator[Kept]:
        """Yield one that fits and nobody else uses, or prepare one; keep it for the next caller."""
        unused = self.unused.setdefault(os.getpid(), [])
        found = next((one for one in unused if fits(one)), None)
        if found is not None:
            unused.remove(found)
            if not self.is_usable(found):
                self.close(found)
                found = None
        lent = prepare() if found is None else found
        try:
            yield lent
        finally:
            unused.append(lent)

    def empty(self) -> None:
        """Close what this process keeps for its next caller."""
        for one in self.unused.pop(os.getpid(), ()):
            self.close(one)


STARTERS: Pool[ForkServer] = Pool(lambda server: server.is_waiting, ForkServer.close)


def lend_starter() -> AbstractContextManager[ForkServer]:
    """Lend a server that nobody else uses; only Linux can fork confined processes."""
    return STARTERS.lend(lambda: ForkServer(STARTER, {}))
