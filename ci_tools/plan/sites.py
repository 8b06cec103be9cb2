"""Chooses where finished wheels are tried: on every requested platform, with the oldest and the newest Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ci_tools.model.names import FileName
from ci_tools.model.plan import SDIST, Job, JobKind, Plan, Site
from ci_tools.model.platforms import Cell, Platform
from ci_tools.model.request import Channel, GpuTrial, Request
from ci_tools.model.versions import Minor, Python


class _Runner(NamedTuple):
    """A runner by its labels, and whether it has a GPU."""

    labels: tuple[str, ...]
    gpu: bool


def sites_of(request: Request, jobs: Sequence[Job], sdist: FileName | None) -> tuple[Site, ...]:
    """Return the sites where the wheels of some jobs are tried, and the site where the sdist is tried.

    A wheel that serves several platforms is tried on the runner of each; platforms that share a runner share the trial.
    """
    runners = {one.platform: _Runner(one.gpu_runner or one.runner, bool(one.gpu_runner)) for one in request.platforms}
    sites = tuple(site for job in jobs for site in _sites(job, runners, request.validate.torch))
    apart = {platform.platform for platform in request.platforms if platform.own_workflow}
    return (*(_sdist_sites([job for job in jobs if job.platform not in apart] or jobs, sdist) if sdist else ()), *sites)


def awaiting_gpu(plan: Plan) -> tuple[Job, ...]:
    """Return the jobs whose wheels must be tried on a GPU before a release: for CUDA, or with a GPU runner.

    This holds for a candidate as well: its bytes are the ones that become stable.
    """
    is_released = plan.edition.channel in {Channel.STABLE, Channel.TEST}
    if plan.request.validate.gpu_trial is not GpuTrial.REQUIRED or not is_released:
        return ()
    named = {platform.platform for platform in plan.request.platforms if platform.gpu_runner}
    return tuple(
        job for job in plan.jobs if job.accelerator and (job.accelerator.kind.has_gpus_in_ci or job.platform in named)
    )


def _sites(job: Job, runners: dict[Platform, _Runner], torch: str | None) -> Iterator[Site]:
    """Yield the sites of a job's wheel, with Pythons that have the trial's torch; free-threaded only at the first."""
    served: dict[_Runner, dict[Platform, None]] = {}
    for cell in job.covers:
        served.setdefault(runners[cell.platform], {})[cell.platform] = None
    for number, (runner, platforms) in enumerate(served.items()):
        pythons = _pythons([cell for cell in job.covers if cell.platform in platforms], torch)
        usual = [python for python in pythons if not python.free_threaded]
        free_threaded = [python for python in pythons if python.free_threaded and not (usual and number)]
        for python in dict.fromkeys((*usual[:1], *usual[-1:], *free_threaded[-1:])):  # first and last may be one
            yield Site(
                name=f"{job.name} on {' '.join(runner.labels)}, Python {python}",
                job=job.name,
                files=job.files,
                platforms=tuple(platforms),
                python=python,
                runner=runner.labels,
                gpu=runner.gpu,
            )


def _pythons(cells: Sequence[Cell], torch: str | None) -> list[Python]:
    """Return the Pythons of some cells, sorted: only those with this very torch, if any has it."""
    having = [cell for cell in cells if cell.torch is None or _is_of(torch or "", cell.torch)]
    return sorted({cell.python for cell in having or cells})


def _is_of(torch: str, version: Minor) -> bool:
    """Whether the trial's torch is a patch release of a minor version, or that nightly."""
    return torch.partition("+")[0] == str(version) if version.nightly else torch.startswith(f"{version}.")


def _sdist_sites(jobs: Sequence[Job], sdist: FileName) -> Iterator[Site]:
    """Yield the site where a wheel is built from the sdist and compared: the pure wheel if there is one."""
    job = next((job for job in jobs if job.kind is JobKind.PURE), next(iter(jobs), None))  # it is built in seconds
    if job:
        yield Site(
            name=f"{SDIST} on {' '.join(job.runner)}, Python {job.python}",
            job=SDIST,
            files=(sdist, job.wheel),
            platforms=tuple(dict.fromkeys(cell.platform for cell in job.covers)),
            python=job.python,
            runner=job.runner,
        )
