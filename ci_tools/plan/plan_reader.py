"""Reads a plan.json into a Plan, on machines that have the plan but not its source."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from ci_tools.errors import Problem, RejectedInput
from ci_tools.formats import json_file
from ci_tools.model.cell import Cell
from ci_tools.model.plan import SDIST, Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.request import Request
from ci_tools.model.versions import Minor, Python
from ci_tools.plan import plan_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_tools.model.plan import Job, Site
    from ci_tools.model.platforms import Accelerator

    Json = Mapping[str, Any]
    Value = TypeVar("Value")

__all__ = ["plan_of", "read"]

JOB = re.compile(r"[\w.+-]+", re.ASCII)
FILE = re.compile(r"(?!\.\.?\Z)[^/\\\0]+")
HINT = "`fatwheel plan --out plan.json` writes one"


def read(path: Path) -> Plan:
    """Return the plan in the file at `path`; raise InputError if it is not a plan."""
    return plan_of(plan_file.read(path), str(path))


def plan_of(data: Json, where: str = "plan.json") -> Plan:
    """Return the plan in the JSON of `plan_file.to_json`; raise RejectedInput with every invalid value."""
    try:
        return _plan(data, where)
    except KeyError as error:
        # The KeyError says no more than its key: it is how the plan is read.
        raise RejectedInput([Problem(where, f"the key {error} is missing")], hint=HINT) from None
    except (AttributeError, TypeError, ValueError) as error:
        raise RejectedInput([Problem(where, f"it is not a plan: {error}")], hint=HINT) from error


def _plan(data: Json, where: str) -> Plan:
    request = json_file.structure(data["request"], Request, f"{where}: plan.request", hint=HINT)
    labels = {one.label: one for platform in request.platforms for one in platform.accelerators}
    cells = {cell["cell"]: _cell(cell, labels) for cell in (*data["covered"], *data["skipped"])}
    parts = {
        "project": data["project"],
        "pins": data["pins"],
        "jobs": [_job(job, cells) for job in data["jobs"]],
        "sdist": data["sdist"],
        "covered": [{**covered, "cell": cells[covered["cell"]]} for covered in data["covered"]],
        "skipped": [{**skipped, "cell": cells[skipped["cell"]]} for skipped in data["skipped"]],
        "warnings": data["warnings"],
        "sites": [{**site, "runner": _labels(site["runner"])} for site in data["validate"]],
        "edition": data["edition"],
    }
    plan = json_file.structure({**parts, "request": request}, Plan, f"{where}: plan", kept=(Cell, Request), hint=HINT)
    if strangers := [Problem(where, stranger) for stranger in _strangers(plan)]:
        raise RejectedInput(strangers, hint=HINT)
    return plan


def _strangers(plan: Plan) -> Iterator[str]:
    """Yield the errors in names: of jobs, of files that would lie outside the release folder, and of what sites try."""
    jobs = {job.name: job for job in plan.jobs}
    covering = dict.fromkeys(one.job for one in plan.covered)
    yield from (f'plan.covered: there is no job "{name}"' for name in covering if name not in jobs)
    yield from (f'"{name}" is not the name of a job' for name in jobs if name == SDIST or not JOB.fullmatch(name))
    made = [name for job in plan.jobs for name in (job.wheel, job.public) if name is not None]
    yield from (f'two jobs are named "{name}"' for name in _repeated([job.name for job in plan.jobs]))
    yield from (f'two jobs make "{name}"' for name in _repeated(made))
    files = dict.fromkeys([*([] if plan.sdist is None else [plan.sdist]), *made])
    yield from (f'"{name}" is not the name of a file' for name in files if not FILE.fullmatch(name))
    for number, site in enumerate(plan.sites):
        yield from (f"plan.validate[{number}]{mistake}" for mistake in _mistakes_of_site(site, plan, jobs))


def _repeated(names: Sequence[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]


def _mistakes_of_site(site: Site, plan: Plan, jobs: Mapping[str, Job]) -> Iterator[str]:
    """Yield where a site tries other files than its job makes; the sdist's tries it and the wheel of a job."""
    if site.job not in {SDIST, *jobs}:
        yield f': there is no job "{site.job}"'
        return
    found = ", ".join(site.files) or "no file"
    if site.job in jobs:
        job = jobs[site.job]
        expected = tuple(name for name in (job.wheel, job.public) if name is not None)
        if site.files != expected:
            yield f".files: {found}, expected what the job {job.name} makes: {', '.join(expected)}"
    elif site.files not in {(plan.sdist, job.wheel) for job in plan.jobs}:
        yield f".files: {found}, expected {plan.sdist or 'no trial of an sdist'} and the wheel of a job"


def _job(job: Json, cells: Mapping[str, Cell]) -> Json:
    """Return a job by its fields: plan.json writes some of them differently."""
    accelerator = job["accelerator"] or {}
    return {
        **job,
        "runner": _labels(job["runner"]),
        "archs": accelerator.get("archs", []),
        "libraries": None
        if job["libraries"] is None
        else [{"member": member, "images": images} for member, images in job["libraries"].items()],
        "env": [list(variable) for variable in job["env"].items()],
        "covers": [_named("plan.jobs", "cell", name, cells) for name in job["covers"]],
    }


def _cell(cell: Json, labels: Mapping[str, Accelerator]) -> Cell:
    """Return a cell from its parts; its accelerator must be one that the request names."""
    label = cell["accelerator"]
    accelerator = _named("plan.request", "accelerator", label, labels) if label else None
    torch = Minor.parse(cell["torch"]) if cell["torch"] else None
    return Cell(Platform(cell["platform"]), accelerator, torch, Python.parse(cell["python"]))


def _named(place: str, noun: str, name: str, known: Mapping[str, Value]) -> Value:
    """Return the value of a name; raise ValueError if there is none."""
    if name not in known:
        msg = f'{place}: there is no {noun} "{name}"'
        raise ValueError(msg)
    return known[name]


def _labels(runner: object) -> object:
    return [runner] if isinstance(runner, str) else runner
