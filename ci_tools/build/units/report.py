"""Counts the compile units of a build: taken, compiled, or compiled as they are, and says what changed."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from ci_tools.build.units.calls import LINK, CompilerCall
from ci_tools.build.units.store import UnitCost

UNCHANGED, SAME_TEXT = "unchanged", "same text"  # taken from the store, without preprocessing and after it
COMPILED, FAILED, PLAIN = "compiled", "failed", "plain"
LEFT = "left"  # not compiled, as the time limit was near
SHOWN = 3  # changes, and reasons for compiling as it is


class DoneUnit(NamedTuple):
    """One unit, and what it took: seconds, of processor time for its key and for its compiler, and bytes."""

    source: str
    how: str
    why: str
    asking: float
    compiling: float
    unit: str  # its name (`Seeds.name`)
    began: float  # since 1970
    took: float  # from then on, with its key
    wall: float  # of the compiler
    peak: int  # bytes of the compiler's largest process
    waited: float  # until memory had room for it


class UnitRun(NamedTuple):
    """A unit's name, when its call began, in seconds since 1970, and what its compiler took."""

    name: str
    began: float
    cost: UnitCost = UnitCost()
    waited: float = 0.0


@dataclass(slots=True)
class UnitReport:
    """The units and links of one build, in the order in which they ended; `root` is the folder of its source."""

    root: Path | None = None  # None: a source is named from the folder of its call
    units: list[DoneUnit] = field(default_factory=list)
    troubles: set[str] = field(default_factory=set)
    links: list[DoneUnit] = field(default_factory=list)
    starved: set[str] = field(default_factory=set)  # sources whose compiler had too little memory beside others
    _lock: Lock = field(default_factory=Lock)

    def add(self, call: CompilerCall, how: str, why: str = "", asking: float = 0.0, run: UnitRun | None = None) -> None:
        """Add a unit that has just ended."""
        source = self.name_source(call)
        name, began, cost, waited = run or UnitRun("", time.time())
        took = (name, round(began, 3), round(time.time() - began, 3), round(cost.wall, 3), cost.peak, round(waited, 3))
        with self._lock:
            kind = self.links if call.language == LINK else self.units
            kind.append(DoneUnit(source, how, why, asking, cost.cpu, *took))

    def name_source(self, call: CompilerCall) -> str:
        """Return the source of a call as people know it: ninja compiles ../../csrc/a.cu in a folder of its own."""
        return " ".join(os.path.relpath(call.cwd / one, self.root or call.cwd) for one in call.sources)

    def describe(self) -> Iterator[str]:
        """Yield the lines for a person; none for a build without a unit."""
        count = Counter(unit.how for unit in self.units)
        taken, compiled = count[UNCHANGED] + count[SAME_TEXT], count[COMPILED] + count[FAILED]
        if taken:
            by_text = f" ({count[SAME_TEXT]} by their text)" if count[SAME_TEXT] else ""
            links = f"; {linked} linked before" if (linked := sum(one.how == UNCHANGED for one in self.links)) else ""
            yield f"{taken + compiled} compile units: {taken} from the store{by_text}, {compiled} compiled{links}"
        for why, number in _count_reasons(self.units, COMPILED):
            yield f"{number} compiled, as this is not as in the store: {why}"
        for name, kind in {"compiler": self.units, "linker": self.links}.items():
            for why, number in _count_reasons(kind, PLAIN):
                yield f"not shared, {number} of the {name}'s calls: {why}"
        if self.starved:
            names = ", ".join(sorted(self.starved)[:SHOWN])
            yield f"compiled again with nothing beside, as memory did not suffice: {names}"
        yield from sorted(self.troubles)


def _count_reasons(done: list[DoneUnit], how: str) -> list[tuple[str, int]]:
    return Counter(one.why for one in done if one.how == how and one.why).most_common(SHOWN)
