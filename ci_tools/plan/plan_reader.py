"""Reads a plan.json into a Plan, on machines that have the plan but not its source."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, TypeVar

import cattrs
from cattrs.cols import is_namedtuple, namedtuple_dict_structure_factory

from ci_tools.errors import Problem, RejectedInput
from ci_tools.model.cell import Cell
from ci_tools.model.names import Name
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

Value = TypeVar("Value")

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
    request = _structure_value(_converter(), data["request"], Request, f"{where}: plan.request")
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
    plan = _structure_value(_whole(), {**parts, "request": request}, Plan, f"{where}: plan")
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
    yield from (f'"{name}" is not the name of a file' for name in named if not SPELLED.fullmatch(name))


def _structure_value(converter: cattrs.Converter, value: object, kind: type[Value], path: str) -> Value:
    """Return a value as a `kind`; raise RejectedInput with every invalid place below `path` (FILE: KEYS)."""
    where, _, keys = path.rpartition(": ")
    try:
        return converter.structure(value, kind)
    except cattrs.BaseValidationError as error:
        problems = [Problem(where, message) for message in cattrs.transform_error(error, path=keys)]
        raise RejectedInput(problems, hint=HINT) from error


def _job(job: Json, cells: Mapping[str, Cell]) -> Json:
    """Return a job by its fields: plan.json writes some of them differently."""
    accelerator = job["accelerator"] or {}
    return {
        **job,
        "runner": _labels(job["runner"]),
        "owner": job["owner"] or "",
        "public": job["public"] or "",
        "archs": accelerator.get("archs", []),
        "libraries": [{"member": member, "images": images} for member, images in job["libraries"].items()],
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


@functools.cache
def _converter() -> cattrs.Converter:
    """Return a strict converter from JSON to frozen values: a number is not a text, and a text not a number."""
    converter = cattrs.Converter()
    converter.register_structure_hook_factory(is_namedtuple, namedtuple_dict_structure_factory)
    for plain in (str, int, bool):
        converter.register_structure_hook(plain, _exactly)
    for name in Name.__subclasses__():
        converter.register_structure_hook(name, lambda value, kind: kind(_exactly(value, str)))
    for version in (Minor, Python):
        converter.register_structure_hook(version, lambda value, kind: kind.parse(_exactly(value, str)))
    return converter


@functools.cache
def _whole() -> cattrs.Converter:
    """Return the converter for a whole plan, whose request and cells are converted already."""
    converter = _converter().copy()
    for kind in (Cell, Request):
        converter.register_structure_hook(kind, lambda value, _: value)
    return converter


def _exactly(value: Any, kind: type) -> Any:  # noqa: ANN401 - JSON
    """Return a value of exactly that type; raise ValueError for any other."""
    if type(value) is not kind:
        msg = f"expected {kind.__name__}, found {type(value).__name__}"
        raise ValueError(msg)  # the converter collects these errors
    return value
