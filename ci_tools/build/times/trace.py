"""Traces of builds in Chrome's format, which https://ui.perfetto.dev shows, too: each unit, and the memory in use.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Times are in microseconds
since 1970, so that the traces of several machines can be put side by side.
"""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.build.units.report import DoneUnit
from ci_tools.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SUFFIX = ".trace.json"
WHOLE, STEP, UNIT = "build", "step", "unit"  # the categories of events
MEMORY = "memory"
FORMAT = "fatwheel-trace-1"
NOTHING: Mapping[str, object] = MappingProxyType({})


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
        ends[lane:] = [unit.began + unit.took, *ends[lane + 1 :]]
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
        events = {FORMAT: trace["traceEvents"]}[trace["otherData"]["format"]]
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
