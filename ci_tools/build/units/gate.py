"""Decides when the compiler of a unit starts: while memory has room for it, and if it ends before the time limit.

The compilers of all builds of this user on this machine share its memory. Each that runs or waits has a file in one
folder, which says what it takes at most. The file is locked as long as its build lives: the kernel frees the locks of
what is killed (flock(2)), and the next one removes the file.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ci_tools.build.units.calls import CompilerCall
from ci_tools.build.units.store import UnitCost, UnitStore, read_cost
from ci_tools.machine.runner import GIB, measure_memory

MARGIN = 1.1  # on what a unit took before: it may read another torch
SPARE = 10.0  # seconds before the time limit in which a build system ends after a compiler
# Of units that were never compiled, bytes before one of the build has ended: what torch's headers take (nvcc 13.0).
UNKNOWN, UNKNOWN_CUDA = GIB, 2 * GIB
ALONE = 1 << 62  # bytes, more than there are: nothing else may run
THREADS = re.compile(r"(?<!\S)(?:-t|--threads)[= ]?(\d+)(?!\S)")
STARVED = re.compile(rb"(?i)\bkilled\b|signal 9\b|out of memory|cannot allocate memory|memory exhausted|bad_alloc")
PAUSE = 0.5  # seconds between two looks at the compilers of other processes
KEPT_FREE = 0.05  # of the available memory: for the build system, and for units that take more than before
LEDGER, SIZE = "ledger", 120  # bytes of a claim: four numbers of 64 bits
_FREED = threading.Condition()


class TimeIsUp(Exception):
    """A unit is not compiled, as its compiler would not end before the time limit."""


@dataclass(slots=True, kw_only=True)
class Gate:
    """The gate of one build. `deadline` is in the seconds of time.monotonic, `memory` what the config says of one."""

    folder: Path  # with the compilers of all builds (see `wait_for_room`)
    store: UnitStore | None = None
    deadline: float = float("inf")
    memory: int = 0
    is_closed: bool = False  # whether a unit was refused, and no other is let in
    _largest: dict[str, UnitCost] = field(default_factory=dict)  # of the units of this build, by language

    @contextmanager
    def enter(self, unit: str, call: CompilerCall, look: Callable[[], None], *, alone: bool = False) -> Iterator[float]:
        """Let a unit's compiler run in the body, which gets the seconds that it waited; raise TimeIsUp if it may not.

        `look` is called while it waits, and may raise what ends that.
        """

        def refuse() -> None:
            look()
            self.is_closed |= time.monotonic() + self._expect(unit, call).wall > self.deadline - SPARE
            if self.is_closed:
                raise TimeIsUp

        def measure() -> int:
            return ALONE if alone else self._expect(unit, call).peak * count_threads(call)

        refuse()
        with wait_for_room(self.folder, measure, refuse) as waited:
            refuse()
            yield waited

    def learn(self, call: CompilerCall, cost: UnitCost) -> None:
        """Remember what a unit took."""
        known = self._largest.get(call.language, cost)
        self._largest[call.language] = UnitCost(max(known.wall, cost.wall), cost.cpu, max(known.peak, cost.peak))

    def _expect(self, unit: str, call: CompilerCall) -> UnitCost:
        """Return what a unit will take at most: what it took before; else up to twice the memory of the largest yet."""
        known = read_cost(unit, self.store) if self.store else None
        if known is None:
            known = self._largest.get(call.language, UnitCost())
            least = self.memory or (UNKNOWN_CUDA if call.is_nvcc else UNKNOWN)
            known = known._replace(peak=max(known.peak, min(least, 2 * known.peak)) or least)
        return known._replace(wall=known.wall * MARGIN, peak=round(known.peak * MARGIN))


def count_threads(call: CompilerCall) -> int:
    """Return how many of nvcc's programs run at a time: as many as it may, one for each architecture at most."""
    words = " ".join(call.words)
    allowed = int(THREADS.findall(f"-t1 {words}")[-1]) if call.is_nvcc else 1
    return min(allowed or os.cpu_count() or 1, max(1, words.count(",code=")))


class MemoryClaim(NamedTuple):
    """What one compiler takes at most in bytes, when it asked, and when it started (0: it waits).

    `room` is the memory there was for all compilers when the first of those that now run started.
    """

    size: int
    asked: int  # nanoseconds since the machine started
    started: int = 0
    room: int = 0


def find_room(mine: MemoryClaim, others: Sequence[MemoryClaim], available: int) -> int:
    """Return the room that a compiler may start in beside the others; 0 if it has to wait.

    One that finds no other always starts, however large it is. A later one passes one that waits only if that one
    would fit beside it, so that nothing large waits forever.
    """
    running = [one for one in others if one.started]
    if not running:
        room = max(available, 1)
    else:
        room = min(one.room for one in running)
        if mine.size > min(available, room - sum(one.size for one in running)):
            return 0
    for first in others:
        if not first.started and first.asked < mine.asked:
            passing = sum(one.size for one in running if one.started > first.asked)
            if passing + first.size + mine.size > room:
                return 0
    return room


@contextmanager
def wait_for_room(folder: Path, size: Callable[[], int], refuse: Callable[[], None]) -> Iterator[float]:
    """Hold so many bytes while the body runs, which gets the seconds that it waited for them.

    `size` is asked again while it waits, as more may be known by then. `refuse` is called, too; what it raises ends the
    wait. Where the folder cannot be written, nothing is held.
    """
    asked = time.monotonic_ns()
    path = folder / f"{asked}-{os.getpid()}-{threading.get_ident()}"
    try:
        file = _begin(path, MemoryClaim(size(), asked))
    except OSError:
        yield 0.0
        return
    with file:
        try:
            while not _start(path, file, MemoryClaim(size(), asked)):
                refuse()
                with _FREED:
                    _FREED.wait(PAUSE)
            yield (time.monotonic_ns() - asked) / 1e9
        finally:
            path.unlink(missing_ok=True)
            with _FREED:
                _FREED.notify_all()


def _begin(path: Path, claim: MemoryClaim) -> BinaryIO:
    import fcntl  # noqa: PLC0415 - only systems with launchers have it

    with _hold_ledger(path.parent):  # nobody sees the file before it is locked
        file = path.open("w+b", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX)
        _write(file, claim)
        return file


def _write(file: BinaryIO, claim: MemoryClaim) -> None:
    """Write a claim in the same bytes each time, so that a disk that is full by then holds it, too."""
    file.seek(0)
    file.write(json.dumps(claim).encode().ljust(SIZE))


def _start(path: Path, file: BinaryIO, mine: MemoryClaim) -> bool:
    """Start a compiler if there is room for it beside those that run, and say so in its file."""
    with _hold_ledger(path.parent):
        others = [
            claim for one in path.parent.iterdir() if one.name not in {LEDGER, path.name} and (claim := _read(one))
        ]
        room = find_room(mine, others, int(measure_memory().available * (1 - KEPT_FREE)))
        if room:
            _write(file, mine._replace(started=time.monotonic_ns(), room=room))
        return bool(room)


def _read(path: Path) -> MemoryClaim | None:
    """Return another compiler's claim; remove that of a build that has ended."""
    import fcntl  # noqa: PLC0415 - see above

    with suppress(FileNotFoundError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return MemoryClaim(*json.load(file))
        path.unlink()
    return None


@contextmanager
def _hold_ledger(folder: Path) -> Iterator[None]:
    import fcntl  # noqa: PLC0415 - see above

    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / LEDGER).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
