"""Traces of builds, and the sums of where their time and memory went.

A trace is in Chrome's format, which https://ui.perfetto.dev shows, too: each unit, and the memory in use
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). Times are in microseconds
since 1970, so that the traces of several machines can be put side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ci_tools.build.units.report import COMPILED, FAILED, LEFT, PLAIN, SAME_TEXT, UNCHANGED, DoneUnit
from ci_tools.errors import InputError
from ci_tools.formats import markdown
from ci_tools.machine.runner import GIB
from ci_tools.machine.waits import duration

SUFFIX = ".trace.json"
WHOLE, STEP, UNIT = "build", "step", "unit"  # the categories of events
MEMORY = "memory"
FORMAT = "fatwheel-trace-1"
NOTHING: Mapping[str, object] = MappingProxyType({})
MIB = 1 << 20
SWAPPED = 64 * MIB  # as much goes to swap without any need (vm.swappiness)
LONGEST = 5  # units that the page of a job names


class MemorySample(NamedTuple):
    """The memory in use on the machine at one time, in seconds since 1970, and what of it is in swap, in bytes."""

    at: float
    used: int
    swapped: int


class TracedJob(NamedTuple):
    """One job's build, or a shard of it: when it ran, on what machine, and its units."""

    name: str
    began: float  # seconds since 1970
    ended: float
    cores: int
    memory: int  # bytes of the machine
    own: float  # seconds of the project's own build, at the end; 0 where it failed
    samples: tuple[MemorySample, ...]
    units: tuple[DoneUnit, ...]


def list_lanes(units: Iterable[DoneUnit]) -> list[tuple[int, DoneUnit]]:
    """Return the units in the order in which they began, each with its lane: those in one lane do not overlap."""
    ends: list[float] = []
    found = []
    for unit in sorted(units, key=lambda one: one.began):
        lane = next((at for at, end in enumerate(ends) if end <= unit.began), len(ends))
        ends[lane:] = [unit.began + unit.took, *ends[lane + 1 :]]  # the lane's new end, or a new lane
        found.append((lane, unit))
    return found


def dump(jobs: Sequence[TracedJob]) -> bytes:
    """Return the trace of jobs, each of which is a process, and each of its lanes a thread."""
    events = [event for number, job in enumerate(jobs, 1) for event in _list_events(number, job)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"format": FORMAT}}).encode()


def _list_events(process: int, job: TracedJob) -> Iterable[dict[str, Any]]:
    lanes = list_lanes(job.units)
    names = {0: "build", **{lane + 1: f"compiler {lane + 1}" for lane, _ in lanes}}
    yield _name("process", process, 0, job.name)
    yield from (_name("thread", process, thread, name) for thread, name in names.items())
    told, start = {"cores": job.cores, "memory": job.memory, "own": job.own}, job.ended - job.own
    yield _span((process, 0), (WHOLE, job.name), job.began, job.ended - job.began, told)
    if job.own:
        yield _span((process, 0), (STEP, "environment"), job.began, start - job.began)
        yield _span((process, 0), (STEP, "the project's own build"), start, job.own)
    for lane, unit in lanes:
        place = process, lane + 1
        yield _span(place, (UNIT, unit.source), unit.began, unit.took, unit._asdict())
        if unit.waited:
            end = unit.began + unit.took - unit.wall
            yield _span(place, (STEP, "waits for memory"), end - unit.waited, unit.waited)
    for one in job.samples:
        sizes = {"used": one.used, "swapped": one.swapped}
        yield {"ph": "C", "name": MEMORY, "pid": process, "tid": 0, "ts": one.at * 1e6, "args": sizes}


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": f"{what}_name", "pid": process, "tid": thread, "ts": 0, "args": {"name": name}}


def _span(
    where: tuple[int, int], name: tuple[str, str], began: float, took: float, told: Mapping[str, object] = NOTHING
) -> dict[str, Any]:
    """Return an event of a process and thread, with its category and name."""
    at = {"pid": where[0], "tid": where[1], "ts": round(began * 1e6), "dur": round(took * 1e6)}
    return {"ph": "X", "cat": name[0], "name": name[1], **at, "args": dict(told)}


def load(path: Path) -> list[TracedJob]:
    """Return the jobs of a trace that `dump` wrote; raise InputError for another file."""
    try:
        trace = json.loads(path.read_bytes())
        events = {FORMAT: trace["traceEvents"]}[trace["otherData"]["format"]]  # another format is a KeyError
        return [_read_job(event, events) for event in events if event.get("cat") == WHOLE]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a trace that fatwheel wrote"
        raise InputError(f"{path} cannot be read: {why}, expected logs/JOB{SUFFIX} of a build") from error


def _read_job(whole: dict[str, Any], events: Sequence[dict[str, Any]]) -> TracedJob:
    own = [event for event in events if event["pid"] == whole["pid"]]
    samples = (MemorySample(event["ts"] / 1e6, **event["args"]) for event in own if event["name"] == MEMORY)
    units = tuple(DoneUnit(**event["args"]) for event in own if event.get("cat") == UNIT)
    told, began = whole["args"], whole["ts"] / 1e6
    return TracedJob(
        whole["name"], began, began + whole["dur"] / 1e6, told["cores"], told["memory"], told["own"], (*samples,), units
    )


def find_jobs(place: Path) -> tuple[TracedJob, ...]:
    """Return the jobs of a trace, or of all traces below a folder; raise InputError where there is none."""
    paths = sorted(place.rglob(f"*{SUFFIX}")) if place.is_dir() else [place]
    if not paths:
        msg = f"there is no trace below {place}, expected the folder of a build, which has logs/JOB{SUFFIX}"
        raise InputError(msg, hint="`fatwheel build` writes one for each job that compiles, on Linux")
    return tuple(job for path in paths for job in load(path))


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
    swapped: int  # how much more than at the start


def add_up(jobs: Sequence[TracedJob]) -> BuildTotals:
    """Return the sums of jobs."""
    units = [unit for job in jobs for unit in job.units]
    longest, peak = (max(units, key=key, default=None) for key in (lambda one: one.wall, lambda one: one.peak))
    hows = [unit.how for unit in units]
    grown = (one.swapped - job.samples[0].swapped for job in jobs for one in job.samples)  # others may use swap, too
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
        swapped=max(grown, default=0),
    )


def _join(jobs: Sequence[TracedJob]) -> float:
    """Return the seconds in which any job ran."""
    seconds, last = 0.0, 0.0
    for job in sorted(jobs, key=lambda one: one.began):
        seconds += max(0.0, job.ended - max(last, job.began))  # jobs of several machines overlap
        last = max(last, job.ended)
    return seconds


def _count_at_once(units: Sequence[DoneUnit]) -> int:
    """Return how many compilers ran at a time."""
    ran = [unit for unit in units if unit.wall]
    starts = [(unit.began + unit.took - unit.wall, 1) for unit in ran]
    changes = sorted([*starts, *((unit.began + unit.took, -1) for unit in ran)])
    return max(accumulate(change for _, change in changes), default=0)


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
