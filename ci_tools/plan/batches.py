"""Batches: jobs that one runner builds in turn, since they differ only in their Python and share all that is set up.

A runner of its own for each Python would pull the same image and fetch the same compiler and torch each time. In turn
they take longer than side by side, so a batch ends where compiling takes longer than setting up another runner may.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from ci_tools.catalog import SourceSeconds
    from ci_tools.model.evidence import Evidence
    from ci_tools.model.plan import Job

INSTALLING = 30  # minutes for a runner, a toolchain, torch and a wheel, over a slow line
CORES = 4  # of a hosted runner
DEVICE = (".cu", ".hip", ".sycl")


def assign_batches(jobs: Iterable[Job], evidence: Evidence, rate: SourceSeconds) -> Iterator[Job]:
    """Yield each job with the name of its batch, if it shares a runner with others."""
    jobs = tuple(jobs)
    groups: dict[Hashable, list[Job]] = {}
    for job in jobs:
        groups.setdefault(_shared(job), []).append(job)
    parts = [(part, group) for group in groups.values() for part in _parts(group, evidence, rate) if part[1:]]
    batches = {job.name: _name(part, group) for part, group in parts for job in part}
    yield from (replace(job, batch=batches[job.name]) if job.name in batches else job for job in jobs)


def _name(part: Sequence[Job], group: Sequence[Job]) -> str:
    """Return the name of a batch: what its jobs share, and their Pythons if others share it too."""
    shared = part[0].name.removesuffix(f"-{part[0].python.abi_tag}")
    pythons = f"-{part[0].python.abi_tag}-{part[-1].python.abi_tag}" if len(part) < len(group) else ""
    return f"{shared}{pythons}"


def _shared(job: Job) -> Hashable:
    """Return what jobs of a batch have in common; an image has every Python, and a runner without one does not."""
    if not job.python_stays or job.container is None:
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
    shown = next((one for one in evidence.platforms if one.platform == job.platform), None)
    built = shown.of(job.covers[0]).built if shown else ()
    sources = [compiled.source for library in built for compiled in library.compiles]
    if not sources:
        return math.inf
    device = sum(source.endswith(DEVICE) for source in sources)
    return rate.estimate(len(sources) - device, device, max(len(job.archs), 1)) / CORES
