"""Reads a plan.json into a Plan, on machines that have the plan but not its source."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ci_tools.errors import Problem, RejectedInput
from ci_tools.formats import json_file
from ci_tools.model.cell import Cell
from ci_tools.model.plan import SDIST, Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.request import Request
from ci_tools.model.versions import Minor, Python
from ci_tools.plan import plan_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from ci_tools.model.platforms import Accelerator

    Json = Mapping[str, Any]

__all__ = ["plan_of", "read"]

SPELLED = re.compile(r"[^/\\\0]*")
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
    """Yield the errors in names: unknown jobs, and file names that would lie outside the release folder."""
    jobs = {job.name for job in plan.jobs}
    yield from (f'plan.covered: there is no job "{one.job}"' for one in plan.covered if one.job not in jobs)
    yield from (f'plan.validate: there is no job "{one.job}"' for one in plan.sites if one.job not in {SDIST, *jobs})
    files = (plan.sdist, *(name for job in plan.jobs for name in (job.wheel, job.public)))
    named = dict.fromkeys((*files, *(name for site in plan.sites for name in site.files)))
    yield from (f'"{name}" is not the name of a file' for name in named if name and not SPELLED.fullmatch(name))


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
        "covers": [cells[name] for name in job["covers"]],
    }


def _cell(cell: Json, labels: Mapping[str, Accelerator]) -> Cell:
    """Return a cell from its parts; its accelerator must be one that the request names."""
    accelerator = labels[cell["accelerator"]] if cell["accelerator"] else None
    torch = Minor.parse(cell["torch"]) if cell["torch"] else None
    return Cell(Platform(cell["platform"]), accelerator, torch, Python.parse(cell["python"]))


def _labels(runner: object) -> object:
    return [runner] if isinstance(runner, str) else runner
