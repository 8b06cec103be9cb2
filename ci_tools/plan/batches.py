"""Batches and shards: jobs that one runner builds in turn, and a job that several runners compile together.

Jobs of a batch differ only in their Python, and share all that is set up.

A runner of its own for each Python would pull the same image and fetch the same compiler and torch each time. In turn
they take longer than side by side, so a batch ends where compiling takes longer than setting up another runner may.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ci_tools.model.evidence import Evidence
from ci_tools.model.plan import Job, JobKind
from ci_tools.model.request import SELF_HOSTED

if TYPE_CHECKING:
    from ci_tools.catalog import SourceSeconds

INSTALLING = 30  # minutes for a runner, a toolchain, torch and a wheel, over a slow line
CORES = 4  # of a hosted runner
SHARD = 20  # minutes of compiling: with less, setting up a further runner takes longer than it saves
AT_ONCE = 20  # jobs of a free account; more would wait for one another (GitHub: usage limits)
SAFE = 0.7  # of a build's time limit: an estimate may be too low
DEVICE = (".cu", ".hip", ".sycl")  # endings whose files are compiled once for each architecture


def assign_batches(jobs: Iterable[Job], evidence: Evidence, rate: SourceSeconds) -> Iterator[Job]:
    """Yield each job with the name of its batch, if it shares a runner with others."""
    jobs = tuple(jobs)
    groups: dict[Hashable, list[Job]] = {}
    for job in jobs:
        groups.setdefault(_shared(job), []).append(job)
    parts = [(part, group) for group in groups.values() for part in _parts(group, evidence, rate) if part[1:]]
    batches = {job.name: _name(part, group) for part, group in parts for job in part}
    yield from (replace(job, batch=batches[job.name]) if job.name in batches else job for job in jobs)


def assign_shards(jobs: Iterable[Job], evidence: Evidence, rate: SourceSeconds, asked: int | None) -> Iterator[Job]:
    """Yield each job with the number of runners that compile it: `asked`, or by the time that compiling takes.

    Units of a build are shared on Linux only. How many runners of one's own there are is not known.
    """
    jobs = tuple(jobs)
    minutes = {job.name: _estimate(job, evidence, rate) / 60 for job in jobs if _may_shard(job, asked)}
    known = {name: one for name, one in minutes.items() if math.isfinite(one)}  # an unknown one may be short
    total = sum(one for one in known.values() if one > SHARD)  # shorter ones take one runner, and leave soon
    for job in jobs:
        if asked and job.name in minutes:
            yield replace(job, shards=asked)
        else:
            own = known.get(job.name, 0.0)
            yield replace(job, shards=count_shards(own, job.minutes, AT_ONCE * own / total if own > SHARD else 1))


def count_shards(minutes: float, limit: int, share: float) -> int:
    """Return how many runners compile a job that takes one of them `minutes`, with a time limit in minutes.

    `share` is how many of the runners that there are at once are this job's; more than that only for the limit.
    """
    if minutes <= SHARD:
        return 1
    return max(1, min(math.ceil(minutes / SHARD), round(share)), math.ceil(minutes / (limit * SAFE)))


def _may_shard(job: Job, asked: int | None) -> bool:
    is_ours = asked is not None or SELF_HOSTED not in job.runner
    return job.kind is JobKind.NATIVE and str(job.platform).startswith("linux") and is_ours


def _name(part: Sequence[Job], group: Sequence[Job]) -> str:
    """Return the name of a batch: what its jobs share, and their Pythons if others share it too."""
    shared = part[0].name.removesuffix(f"-{part[0].python.abi_tag}")
    pythons = f"-{part[0].python.abi_tag}-{part[-1].python.abi_tag}" if len(part) < len(group) else ""
    return f"{shared}{pythons}"


def _shared(job: Job) -> Hashable:
    """Return what jobs of a batch have in common; an image has every Python, and a runner without one does not."""
    if not job.python_stays or job.container is None or job.shards > 1:
        return job.name
    setting = (job.platform, job.accelerator, job.torch, job.requires_torch, job.toolchain)
    return setting, job.container, job.runner, job.care, job.owner, job.required, job.minutes


def _parts(group: Iterable[Job], evidence: Evidence, rate: SourceSeconds) -> Iterator[list[Job]]:
    """Yield a group in parts that compile for at most as long as a runner's set-up may take."""
    part: list[Job] = []
    total = 0.0
    for job in group:
        seconds = _estimate(job, evidence, rate)
        if part and total + seconds > INSTALLING * 60:
            yield part
            part, total = [], 0.0
        part.append(job)
        total += seconds
    if part:
        yield part


def _estimate(job: Job, evidence: Evidence, rate: SourceSeconds) -> float:
    """Return the seconds that compiling a job takes on a hosted runner; infinite if nobody knows what it compiles."""
    shown = next((one for one in evidence.platforms if one.platform == job.platform), None)  # None for the pure wheel
    built = shown.of(job.covers[0]).built if shown else ()  # cells of a job share their build
    sources = [compiled.source for library in built for compiled in library.compiles]
    if not sources:
        return math.inf
    device = sum(source.endswith(DEVICE) for source in sources)
    return rate.estimate(len(sources) - device, device, max(len(job.archs), 1)) / CORES
