"""Builds as their traces tell them, made up."""

from __future__ import annotations

import resource

from ci_tools.build.times.trace import MemorySample, TracedJob
from ci_tools.build.units.report import COMPILED, DoneUnit

GIB = 1 << 30


def unit(
    source: str, began: float, took: float, how: str = COMPILED, *, waited: float = 0.0, peak: int = GIB
) -> DoneUnit:
    """Return a unit whose key takes no time."""
    wall = took - waited if how == COMPILED else 0.0
    return DoneUnit(source, how, "", 0.0, wall, f"unit-{source}", began, took, wall, peak if wall else 0, waited)


def job(name: str, *units: DoneUnit, began: float = 0.0, swapped: int = 0) -> TracedJob:
    """Return a job of 100 seconds, 60 of them of its own build."""
    samples = MemorySample(began, GIB, 0), MemorySample(began + 1, 2 * GIB, swapped)
    return TracedJob(name, began, began + 100, 4, 16 * GIB, 60, samples, units)


def children_seconds() -> float:
    """Return the time of the processors that the ended children of this process have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
