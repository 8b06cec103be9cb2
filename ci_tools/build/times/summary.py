"""Adds up where the time and the memory of builds went, and says it in few words."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build.units.report import COMPILED, FAILED, LEFT, PLAIN, SAME_TEXT, UNCHANGED
from ci_tools.formats import markdown
from ci_tools.machine.runner import GIB
from ci_tools.machine.waits import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_tools.build.times.trace import TracedJob
    from ci_tools.build.units.report import DoneUnit

MIB = 1 << 20
SWAPPED = 64 * MIB  # as much goes to swap without any need (vm.swappiness)
LONGEST = 5  # units that the page of a job names


class BuildTotals(NamedTuple):
    """The sums of one or more jobs: seconds, bytes and units."""

    wall: float  # of all jobs together, where they do not overlap
    own: float  # of the projects' own builds
    units: int
    taken: int  # from the store
    compiled: int
    left: int
    compiling: float  # processor time
    keys: float  # processor time
    waited: float
    at_once: int
    longest: float
    longest_source: str
    peak: int
    peak_source: str
    used: int  # the most memory of a machine, with everything that runs there
    swapped: int


def add_up(jobs: Sequence[TracedJob]) -> BuildTotals:
    """Return the sums of jobs."""
    units = [unit for job in jobs for unit in job.units]
    longest, peak = (max(units, key=key, default=None) for key in (lambda one: one.wall, lambda one: one.peak))
    hows = [unit.how for unit in units]
    return BuildTotals(
        wall=_join(jobs),
        own=sum(job.own for job in jobs),
        units=len(units),
        taken=hows.count(UNCHANGED) + hows.count(SAME_TEXT),
        compiled=sum(map(hows.count, (COMPILED, FAILED, PLAIN))),
        left=hows.count(LEFT),
        compiling=sum(unit.compiling for unit in units),
        keys=sum(unit.asking for unit in units),
        waited=sum(unit.waited for unit in units),
        at_once=max((_count_at_once(job.units) for job in jobs), default=0),
        longest=longest.wall if longest else 0.0,
        longest_source=longest.source if longest else "",
        peak=peak.peak if peak else 0,
        peak_source=peak.source if peak else "",
        used=max((sample.used for job in jobs for sample in job.samples), default=0),
        swapped=max((_measure_swapped(job) for job in jobs), default=0),
    )


def _join(jobs: Sequence[TracedJob]) -> float:
    """Return the seconds in which any job ran."""
    seconds, last = 0.0, 0.0
    for job in sorted(jobs, key=lambda one: one.began):
        seconds += max(0.0, job.ended - max(last, job.began))
        last = max(last, job.ended)
    return seconds


def _count_at_once(units: Sequence[DoneUnit]) -> int:
    """Return how many compilers ran at a time."""
    ran = [unit for unit in units if unit.wall]
    starts = [(unit.began + unit.took - unit.wall, 1) for unit in ran]
    changes = sorted([*starts, *((unit.began + unit.took, -1) for unit in ran)])
    return max(accumulate(change for _, change in changes), default=0)


def _measure_swapped(job: TracedJob) -> int:
    """Return how much more was in swap than at the start."""
    return max((sample.swapped for sample in job.samples), default=0) - (job.samples[0].swapped if job.samples else 0)


def describe_job(job: TracedJob) -> Iterator[str]:
    """Yield lines about what the compilers of a job took; none if it compiled nothing."""
    told = add_up([job])
    if not told.compiled:
        return
    memory = f"the largest {describe_size(told.peak)} of memory ({told.peak_source})"
    waited = f", {duration(told.waited)} waited for memory" if told.waited >= 1 else ""
    took = f"compilers took {duration(told.compiling)} of processor time, {told.at_once} at a time"
    yield f"{took}, {memory}{waited}"
    if told.swapped > SWAPPED:
        yield f"warning: {describe_size(told.swapped)} went to swap, which is slow; the machine has too little memory"


def page_of_job(job: TracedJob, lines: Sequence[str]) -> str:
    """Return what the page of a workflow's job says about the units, in Markdown; "" for a job without any."""
    if not job.units:
        return ""
    said = "".join(f"- {markdown.text(line)}\n" for line in lines)
    longest = sorted((unit for unit in job.units if unit.wall), key=lambda one: -one.wall)[:LONGEST]
    rows = [[unit.source, duration(unit.wall), describe_size(unit.peak)] for unit in longest]
    table = markdown.table_head("longest units", "time", "memory") if rows else ""
    return f"{said}\n{table}{''.join(markdown.row([*map(markdown.text, row)]) for row in rows)}\n"


def describe_size(size: int) -> str:
    """Return a size of memory for people: 800 MiB, 5.2 GiB."""
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{size // MIB} MiB"
