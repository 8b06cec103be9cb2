"""Decides when the compiler of a unit starts: while memory has room for it, and if it ends before the time limit."""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ci_tools.build.units.slots import wait_for_room
from ci_tools.build.units.store import UnitCost, read_cost
from ci_tools.machine.runner import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ci_tools.build.units.calls import CompilerCall
    from ci_tools.build.units.store import UnitStore

MARGIN = 1.1  # on what a unit took before: it may read another torch
SPARE = 10.0  # seconds before the time limit in which a build system ends after a compiler
# Of units that were never compiled, bytes before one of the build has ended: what torch's headers take (nvcc 13.0).
UNKNOWN, UNKNOWN_CUDA = GIB, 2 * GIB
ALONE = 1 << 62  # bytes, more than there are: nothing else may run
THREADS = re.compile(r"(?<!\S)(?:-t|--threads)[= ]?(\d+)(?!\S)")
STARVED = re.compile(rb"(?i)\bkilled\b|signal 9\b|out of memory|cannot allocate memory|memory exhausted|bad_alloc")


class TimeIsUp(Exception):
    """A unit is not compiled, as its compiler would not end before the time limit."""


@dataclass(slots=True, kw_only=True)
class Gate:
    """The gate of one build. `deadline` is in the seconds of time.monotonic, `memory` what the config says of one."""

    folder: Path  # with the compilers of all builds (see `slots`)
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
