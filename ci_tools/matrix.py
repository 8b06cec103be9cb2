"""From a plan to what a workflow runs: the rows of its matrices, as step outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ci_tools.errors import InputError
from ci_tools.model import SDIST
from ci_tools.planfile import runs_on
from ci_tools.sites import awaiting_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.model import Job, Plan, Site

    Row = dict[str, Any]

__all__ = ["builds", "outputs", "sites"]

MOST_ROWS = 256  # jobs of one matrix on GitHub
INSTALLING = 30  # minutes for a runner, a toolchain, torch and a wheel, over a slow line
NO_CHANNEL = "none"  # of a commit without the version's tag
HOST = "/host"  # where a container sees the disk of its runner
MOST_TEXT = 1 << 20  # bytes of all outputs of a job on GitHub


def outputs(plan: Plan) -> dict[str, str]:
    """Return what a workflow has to know of a plan, each on one line: matrices as JSON, and words.

    Raises InputError where GitHub would not take a matrix, or a release waits for a GPU that no runner has.
    """
    _refuse_no_gpu(plan)
    found = {
        "project": plan.project.name,
        "version": plan.project.version,
        "channel": str(plan.edition.channel or NO_CHANNEL),
        "commit": plan.pins.commit,
        "any": json.dumps(bool(plan.jobs)),
        "changed": "true",  # from nothing, where it is not compared
        "builds": _dumps("builds", builds(plan)),
        "sites": _dumps("sites", sites(plan)),
    }
    size = sum(map(len, found.values()))
    if size > MOST_TEXT:
        msg = f"the plan's matrices are {size} bytes, and GitHub takes {MOST_TEXT} from a job"
        raise InputError(msg, hint="ask for fewer platforms at a time: --only PLATFORM")
    return found


def _refuse_no_gpu(plan: Plan) -> None:
    """Raise InputError where a wheel has to be tried on a GPU, and no runner is named that has one."""
    tried = {site.job for site in plan.sites if site.gpu}
    lacking = dict.fromkeys(str(job.platform) for job in awaiting_gpu(plan) if job.name not in tried)
    if lacking:
        msg = f"the wheels for {', '.join(lacking)} have to be tried on a GPU (`gpu: required`), and no runner has one"
        hint = f"name one in the config (`gpu-runner`) or for this run (--gpu-runner {next(iter(lacking))}=LABEL)"
        raise InputError(msg, hint=hint)


def _dumps(name: str, rows: Iterable[Row]) -> str:
    listed = list(rows)
    if len(listed) > MOST_ROWS:
        msg = f"the plan has {len(listed)} {name}, and GitHub runs {MOST_ROWS} jobs of one matrix"
        raise InputError(msg, hint="ask for fewer platforms at a time (--only PLATFORM), or see `fatwheel advise`")
    return json.dumps({"include": listed}, separators=(",", ":"))


def builds(plan: Plan) -> Iterator[Row]:
    """Yield a row for each runner that builds: one job, and with the first the sdist, which is held against it."""
    first = next((site.files[1] for site in plan.sites if site.job == SDIST), "")
    for job in plan.jobs:
        names = [SDIST, job.name] if job.wheel == first else [job.name]
        yield {
            "name": job.name,
            "jobs": ",".join(names),
            "platform": str(job.platform or ""),
            "runner": runs_on(job.runner),
            "container": _container(job),
            "image": job.container,
            "root": HOST if job.container and _wants_room(job) else "",
            "python": str(job.python),
            "owner": job.owner,
            "required": job.required,
            "minutes": INSTALLING + len(names) * job.minutes,  # so that a build that takes too long can say so
        }


def _wants_room(job: Job) -> bool:
    return job.care.free_disk or job.care.swap_gib > 0


def _container(job: Job) -> str | Row:
    """Return the image of a job as a workflow's `container` takes it; with its runner's own disk where that needs room.

    The runner is a hosted one then, which is thrown away after the job (runner.py leaves every other alone).
    """
    if not (job.container and _wants_room(job)):
        return job.container
    row: Row = {"image": job.container, "volumes": [f"/:{HOST}"]}
    return {**row, "options": "--privileged"} if job.care.swap_gib else row  # swapon is for the privileged alone


def sites(plan: Plan) -> Iterator[Row]:
    """Yield a row for each place where a wheel is tried, with the row of the builds that has its files."""
    makers = {name: job for job in plan.jobs for name in (job.wheel, job.public)}
    for number, site in enumerate(plan.sites):
        job = makers[site.files[-1]]
        yield {
            "name": site.name,
            "number": number,
            "built": job.name,
            "runner": runs_on(site.runner),
            "python": str(site.python),
            "owner": job.owner,
            "required": job.required,
            "minutes": INSTALLING + _minutes(plan, site, job),
        }


def _minutes(plan: Plan, site: Site, job: Job) -> int:
    """Return how long a trial may take: that of the sdist builds a wheel once more, the others run what they name."""
    if site.job == SDIST:
        return job.minutes
    validation = plan.request.validate
    tried = len(validation.imports) + len(validation.commands)
    return len(site.files) * tried * -(-validation.timeout_seconds // 60)
