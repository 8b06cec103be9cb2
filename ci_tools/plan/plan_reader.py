"""Reads a plan.json into a Plan, on machines that have the plan but not its source."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ci_tools.errors import Problem, RejectedInput
from ci_tools.formats import json_file
from ci_tools.model.plan import SDIST, Job, Plan, Site
from ci_tools.model.platforms import Accelerator, Cell, Platform
from ci_tools.model.request import Request
from ci_tools.model.versions import Minor, Python
from ci_tools.plan import plan_file

if TYPE_CHECKING:
    Json = Mapping[str, Any]

Found = TypeVar("Found")

NULL = type(None)
JOB = re.compile(r"[\w.+-]+", re.ASCII)  # safe as the name of a folder
FILE = re.compile(r"(?!\.\.?\Z)[^/\\\0]+")  # not . or .., and nothing that leaves the folder
HINT = "`fatwheel plan --out plan.json` writes one, as do `fatwheel build` and `fatwheel release`"


def read(path: Path) -> Plan:
    """Return the plan in the file at `path`; raise InputError if it is not a plan."""
    return plan_of(plan_file.read(path), str(path))


def plan_of(data: Json, where: str = "plan.json") -> Plan:
    """Return the plan in the JSON of `plan_file.to_json`; raise RejectedInput with every invalid value."""
    try:
        parts = _parts(data, where)
    except KeyError as error:
        # The KeyError says no more than its key: it is how the plan is read.
        raise RejectedInput([Problem(where, f"the key {error} is missing")], hint=HINT) from None
    except (AttributeError, TypeError, ValueError) as error:
        raise RejectedInput([Problem(where, f"it is not a plan: {error}")], hint=HINT) from error
    plan_file.check_rows(parts["request"].catalog, where)
    plan = json_file.structure(parts, Plan, f"{where}: plan", kept=(Cell, Request), hint=HINT)
    if wrong := [Problem(where, what) for what in (*_strangers(plan), *_false_folders(plan, data["jobs"]))]:
        raise RejectedInput(wrong, hint=HINT)
    return plan


def _parts(data: Json, where: str) -> Json:
    """Return the JSON of a plan by the fields of a Plan; its request and cells are frozen already."""
    request = json_file.structure(data["request"], Request, f"{where}: plan.request", hint=HINT)
    labels = {one.label: one for platform in request.platforms for one in platform.accelerators}
    covered, skipped = (
        _each(data, key, lambda item: {**item, "name": str(item["cell"]), "cell": _cell(item, labels)})
        for key in ("covered", "skipped")  # jobs name a cell by its `name`
    )
    cells = {item["name"]: item["cell"] for item in (*covered, *skipped)}
    return {
        "project": data["project"],
        "pins": data["pins"],
        "jobs": _each(data, "jobs", lambda job: _job(job, cells)),
        "sdist": data["sdist"],
        "covered": covered,
        "skipped": skipped,
        "warnings": data["warnings"],
        "sites": _each(data, "validate", lambda site: {**site, "runner": _labels(site["runner"])}),
        "edition": data["edition"],
        "request": request,
    }


def _each(data: Json, key: str, convert: Callable[[Json], dict[str, Any]]) -> list[dict[str, Any]]:
    """Convert every object of a list."""
    found = []
    with _placed(f"plan.{key}"):
        items = json_file.require_type(data[key], list)
    for number, item in enumerate(items):
        with _placed(f"plan.{key}[{number}]"):
            found.append(convert(json_file.require_type(item, dict)))
    return found


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """Name the place of a value that cannot be converted; raises ValueError."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{place}: the key {error} is missing") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error


def _false_folders(plan: Plan, jobs: Iterable[Json]) -> Iterator[str]:
    """Yield the index folders of a wheel that are not those of what it serves: other programs read them."""
    for number, (job, written) in enumerate(zip(plan.jobs, jobs, strict=True)):
        for key, true in (("folder", job.folder), ("also", list(job.also))):
            if written[key] != true:
                yield f"plan.jobs[{number}].{key}: found {json.dumps(written[key])}, expected {json.dumps(true)}"


def _strangers(plan: Plan) -> Iterator[str]:
    """Yield the errors in names: of jobs, of files that would lie outside the release folder, and of what sites try."""
    jobs = {job.name: job for job in plan.jobs}
    covering = dict.fromkeys(one.job for one in plan.covered)
    yield from (f'plan.covered: there is no job "{name}"' for name in covering if name not in jobs)
    yield from (f'"{name}" is not the name of a job' for name in jobs if name == SDIST or not JOB.fullmatch(name))
    made = [name for job in plan.jobs for name in job.files]
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
        expected = jobs[site.job].files
        if site.files != expected:
            yield f".files: {found}, expected what the job {site.job} makes: {', '.join(expected)}"
    elif site.files not in {(plan.sdist, job.wheel) for job in plan.jobs}:
        yield f".files: {found}, expected {plan.sdist or 'no trial of an sdist'} and the wheel of a job"


def _job(job: Json, cells: Mapping[str, Cell]) -> dict[str, Any]:
    """Return a job by its fields: plan.json writes some of them differently."""
    accelerator = json_file.require_type(job["accelerator"], dict, NULL) or {}
    libraries = json_file.require_type(job["libraries"], dict, NULL)
    return {
        **job,
        "runner": _labels(job["runner"]),
        "archs": accelerator.get("archs", []),
        "libraries": None
        if libraries is None
        else [{"member": member, "images": images} for member, images in libraries.items()],
        "spared": [list(library) for library in json_file.require_type(job["spared"], dict).items()],
        "env": [list(variable) for variable in json_file.require_type(job["env"], dict).items()],
        "covers": [_find(str(name), cells, "cell") for name in json_file.require_type(job["covers"], list)],
    }


def _cell(cell: Json, labels: Mapping[str, Accelerator]) -> Cell:
    """Return a cell from its parts; its accelerator must be one that the request names."""
    accelerator = _find(str(cell["accelerator"]), labels, "accelerator") if cell["accelerator"] else None
    torch = Minor.parse_torch(cell["torch"]) if cell["torch"] else None
    return Cell(Platform(cell["platform"]), accelerator, torch, Python.parse(cell["python"]))


def _find(name: str, known: Mapping[str, Found], what: str) -> Found:
    if name not in known:
        raise ValueError(f'the plan has no {what} "{name}"')
    return known[name]


def _labels(runner: object) -> object:
    return [runner] if isinstance(runner, str) else runner
