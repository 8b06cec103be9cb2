"""Writes and reads plan.json, the plan for users' scripts, and lists the differences between two plans."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ci_tools import catalog as catalogs
from ci_tools.catalog.targets import is_local
from ci_tools.config import loader
from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.formats.json_file import parse, structure, unstructure
from ci_tools.model.edition import is_date, tag_of
from ci_tools.model.evidence import CellEvidence, Evidence, PlatformEvidence
from ci_tools.model.names import GIT_COMMIT
from ci_tools.model.plan import Job, Plan, Site
from ci_tools.model.platforms import Cell, Platform
from ci_tools.model.request import NO_RUN, STABLE, UNTAGGED, CatalogRow, Channel, Edition, PathSource, Request, Route

PLAN = "plan.json"  # in a release folder, beside the files built by this plan
SCHEMA_VERSION = 1


def to_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as one JSON object; its keys are a contract (docs/reference/plan.md)."""
    # Without the empty settings that only a repeated build has.
    value: dict[str, Any] = unstructure(plan.request)
    value["run"] = {name: said for name, said in value["run"].items() if said or name not in {"container", "requires"}}
    return {
        "schema": SCHEMA_VERSION,
        "request": value,
        "pins": plan.pins._asdict(),
        "project": plan.project._asdict(),
        "edition": unstructure(plan.edition),
        "cells": plan.cells,
        "jobs": [_job(job) for job in plan.jobs],
        "sdist": plan.sdist,
        "covered": [{**_cell(cell), "job": job, "reason": reason} for cell, job, reason in plan.covered],
        "skipped": [{**_cell(cell), "reason": reason} for cell, reason in plan.skipped],
        "warnings": list(plan.warnings),
        "validate": [_site(site, plan.request) for site in plan.sites],
        "publish": _publish(plan),
    }


def hash_request(request: Request) -> str:
    """Return a hash of what a config asks for, wherever its lines stand; not of a rebuild's number or one run."""
    value = unstructure(replace(request, run=NO_RUN, catalog=(), release=request.release._replace(rebuild=None)))
    value["release"]["tag"] = value["release"]["tag"].removesuffix(f"-r{request.release.rebuild}")
    text = json.dumps(_without_places(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def list_origin(plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return what of a plan a wheel states, so that its job can be planned again; what is empty is left out.

    A build that no channel takes states no tag, and a source only if that was fetched. A candidate states
    what its release will: they have the same bytes.
    """
    source, config = plan.stated_commits
    edition, run, request = plan.edition, plan.request.run, plan.request
    asked = replace(  # without what a run may override and no wheel depends on
        request,
        platforms=tuple(replace(one, gpu_runner=None, container=None) for one in request.platforms),
        publish=request.publish._replace(targets=()),
        release=request.release._replace(tag=""),
    )
    known = {"name": plan.project.name, "version": plan.project.version}
    edition = STABLE if edition.channel is Channel.TEST else edition
    is_fetched = not isinstance(request.source, PathSource)
    has_tag = edition.channel is Channel.STABLE and not request.release.untagged
    said = {
        "source": "fetched" if is_fetched else "",
        "source:commit": source,
        "source:sha256": plan.pins.source_sha256 if source or is_fetched else "",
        "config": request.config,
        "config:commit": config,
        "config:sha256": hash_request(asked),
        "edition": " ".join(str(part) for part in edition if part is not None),
        "tag": tag_of(edition, request.release.tag, known) if source and has_tag else "",
        "run:torch": " ".join(run.torch),
        "run:level": " ".join(run.level),
    }
    return tuple((name, value) for name, value in said.items() if value)


def _without_places(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: _without_places(item) for key, item in value.items() if key != "where"}
    return [_without_places(item) for item in value] if isinstance(value, (list, tuple)) else value


def dumps(plan: Plan) -> str:
    """Return the plan's JSON text; equal plans give equal text."""
    return json.dumps(to_json(plan), indent=1, ensure_ascii=False) + "\n"  # lines that can be compared


def evidence_json(evidence: Evidence, plan: Plan) -> str:
    """Return all evidence as JSON text; evidence that several cells share is written once, with those cells."""
    value = {
        "schema": SCHEMA_VERSION,
        "project": evidence.project._asdict(),
        "source_sha256": evidence.source_sha256,
        "commit": evidence.commit,
        "requires_torch": unstructure(evidence.requires_torch),
        "builds_with_torch": unstructure(evidence.builds_with_torch),
        "platforms": [_platform_evidence(platform, plan) for platform in evidence.platforms],
        "warnings": list(evidence.warnings),
    }
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _platform_evidence(platform: PlatformEvidence, plan: Plan) -> dict[str, Any]:
    """Return the evidence of one platform, grouped by cells."""
    groups: dict[CellEvidence, list[str]] = {}
    for cell in (cell for cell in plan.list_cells() if cell.platform is platform.platform):
        groups.setdefault(platform.of(cell), []).append(str(cell))
    return {
        "platform": str(platform.platform),
        "native_files": list(platform.native_files),
        "cells": [{"cells": names, **unstructure(shown)} for shown, names in groups.items()],
    }


def only(plan: Plan, platform: Platform) -> Plan:
    """Return the part of the plan for one platform: its cells, and the jobs that cover them."""
    covered = tuple(item for item in plan.covered if item.cell.platform is platform)
    names = {item.job for item in covered}
    return replace(
        plan,
        jobs=tuple(job for job in plan.jobs if job.name in names),
        sites=tuple(site for site in plan.sites if platform in site.platforms),  # also those of a wheel that it shares
        covered=covered,
        skipped=tuple(item for item in plan.skipped if item.cell.platform is platform),
        warnings=tuple(warning for warning in plan.warnings if _concerns(warning, platform)),
    )


def own(plan: Plan, platform: Platform) -> Plan:
    """Return the part of the plan that a platform's own pipeline makes: its native jobs, and their wheels' sites."""
    jobs = tuple(job for job in plan.jobs if job.platform is platform)
    names = {job.name for job in jobs}
    return replace(
        only(plan, platform),
        sdist=None,
        jobs=jobs,
        sites=tuple(site for site in plan.sites if site.job in names),
        covered=tuple(item for item in plan.covered if item.job in names),
    )


def together(plan: Plan, built: Container[str] = ()) -> Plan:
    """Return the part of the plan that the common pipeline makes: without platforms that have their own workflow.

    A platform with a file in `built` is kept: it was built here all the same.
    """
    apart = {platform.platform for platform in plan.request.platforms if platform.own_workflow}
    makers = plan.makers
    made = {job.platform for name, job in makers.items() if name in built}
    jobs = tuple(job for job in plan.jobs if job.platform not in apart - made)
    names = {job.name for job in jobs}
    return replace(
        plan,
        jobs=jobs,
        sites=tuple(site for site in plan.sites if makers[site.files[-1]].name in names),
        covered=tuple(item for item in plan.covered if item.job in names),
    )


def left(plan: Plan) -> list[Platform]:
    """Return the platforms that have a workflow of their own and no job in this plan."""
    made = {job.platform for job in plan.jobs}
    return [one.platform for one in plan.request.platforms if one.own_workflow and one.platform not in made]


def _concerns(warning: str, platform: Platform) -> bool:
    """Whether a warning concerns this platform or the whole project: warnings of platforms name them first."""
    named = warning.partition(": ")[0].split(", ")
    return str(platform) in named or not all(name in set(map(str, type(platform))) for name in named)


def _no_plan(path: Path) -> InputError:
    """Return the error for a missing plan; wheels without a plan were not built by Fatwheel."""
    files = sorted(file.name for pattern in ("*.whl", "*.tar.gz") for file in path.parent.glob(pattern))
    if not files:
        msg = f"there is no {path}, expected the plan of what was built"
        return InputError(msg, hint="`fatwheel build` and `fatwheel release` leave it beside what they build")
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    msg = f"{path.parent} has {files[0]}{more}, and no {path.name} that says what they are and which belong together"
    hint = "`fatwheel index add dir:PATH WHEEL …` publishes files that Fatwheel did not build; `fatwheel release` makes"
    return InputError(msg, hint=f"{hint} its own")


def project_in(path: Path) -> str:
    """Return the name of the project of the plan in a file; "" if the file has no plan of this schema."""
    try:
        return str(read(path)["project"]["name"])
    except (InputError, KeyError, TypeError):
        return ""


def read(path: Path) -> dict[str, Any]:
    """Return the plan in the file at `path` as JSON values; raise InputError if there is none."""
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a regular file, expected what `fatwheel plan --out` writes")
    try:
        plan = parse(path.read_bytes())
    except FileNotFoundError as error:
        raise _no_plan(path) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not a plan: {error}", hint="`fatwheel plan --out plan.json` writes one") from error
    if not isinstance(plan, dict) or plan.get("schema") != SCHEMA_VERSION:
        raise InputError(f"{path} is not a plan of schema {SCHEMA_VERSION}, expected what `fatwheel plan --out` writes")
    if not _pins_commit(plan):
        msg = f"{path} has no commit at pins.commit, expected 40 or 64 hex digits, or null for a source without git"
        raise InputError(msg)
    if edition_of(plan) is None:
        msg = f"{path} has no known edition, expected its channel, candidate and date at edition"
        raise InputError(msg, hint="`fatwheel plan --out plan.json` writes one")
    return plan


def _pins_commit(plan: dict[str, Any]) -> bool:
    """Whether a plan's JSON pins a commit, or says that its source has none."""
    match plan.get("pins"):
        case {"commit": None}:
            return True
        case {"commit": str(commit)}:
            return GIT_COMMIT.fullmatch(commit) is not None
    return False


def edition_of(plan: dict[str, Any]) -> Edition | None:
    """Return the edition in a plan's JSON, or None if it has no valid one."""
    match plan.get("edition"):
        case {"channel": "stable", "candidate": None, "date": None}:
            return Edition()
        # Bool is an int: True would be rc1.
        case {"channel": "test", "candidate": int(number), "date": None} if number > 0 and number is not True:
            return Edition(Channel.TEST, number)
        case {"channel": "nightly", "candidate": None, "date": str(date)} if is_date(date):
            return Edition(Channel.NIGHTLY, date=date)
        case {"channel": None, "candidate": None, "date": None}:
            return UNTAGGED
    return None


def rows_of(plan: dict[str, Any], where: str) -> tuple[CatalogRow, ...]:
    """Return the rows that a plan's project adds to the catalog; raise RejectedInput if they are none."""
    request = plan.get("request")
    said = request.get("catalog", []) if isinstance(request, dict) else []
    rows: tuple[CatalogRow, ...] = structure(said, tuple[CatalogRow, ...], f"{where}: plan.request.catalog")
    return check_rows(rows, where)


def check_rows(rows: tuple[CatalogRow, ...], where: str) -> tuple[CatalogRow, ...]:
    """Return rows of the catalog that a plan has; raise RejectedInput if they are none, or contradict ours."""
    try:
        loader.check_rows(rows, where)
    except (AttributeError, TypeError, ValueError) as error:
        raise RejectedInput([Problem(where, f"plan.request.catalog has no row of a catalog: {error}")]) from error
    catalogs.load(rows)
    return rows


def config_of(path: Path) -> Path:
    """Return the config a plan was made from; raise InputError if it is not below the current folder."""
    request = read(path).get("request")
    name = request.get("config") if isinstance(request, dict) else None
    if not isinstance(name, str):
        raise InputError(f"{path} is not a plan: it names no config", hint="`fatwheel plan --out plan.json` writes one")
    config = Path(name)
    if not config.is_file():
        msg = f"{path} is the plan of {name} in its source, and there is no such file here"
        raise InputError(msg, hint=f"name the config: `fatwheel build FOLDER/{config.name} --plan {path} …`")
    return config


def differences(before: object, after: object, where: str = "plan") -> Iterator[str]:
    """Yield one line for every place where two plans differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from differences(before.get(key), after.get(key), f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{where}[{index}]")
    elif before != after:
        yield f"{where}: {_brief(before)} in the plan, {_brief(after)} here"


def _brief(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 100 else f"{text[:97]}…"  # noqa: PLR2004 - the longest value for one line


def _cell(cell: Cell) -> dict[str, str]:
    """Return a cell as a whole and by its parts; a missing part is ""."""
    return {
        "cell": str(cell),
        "platform": str(cell.platform),
        "accelerator": cell.accelerator.label if cell.accelerator else "",
        "torch": str(cell.torch or ""),
        "python": str(cell.python),
    }


def _job(job: Job) -> dict[str, Any]:
    """Return a job by its fields, and the folders of its wheel; some are written as scripts want them."""
    accelerator = job.accelerator and {**unstructure(job.accelerator), "label": job.accelerator.label}
    fields = {name: value for name, value in unstructure(job).items() if name != "archs"}
    libraries = None if job.libraries is None else {one.member: list(one.images) for one in job.libraries}
    return {
        **fields,
        "accelerator": accelerator and {**accelerator, "archs": list(job.archs)},
        "runner": runs_on(job.runner),
        "folder": job.folder,
        "also": list(job.also),
        "env": dict(job.env),
        "libraries": libraries,
        "spared": {member: str(torch) for member, torch in job.spared},
        "covers": [str(cell) for cell in job.covers],
    }


def runs_on(runner: tuple[str, ...]) -> str | list[str]:
    """Return a runner's labels as a workflow's `runs-on` takes them: one by itself, several as a list."""
    return runner[0] if len(runner) == 1 else list(runner)


def _site(site: Site, request: Request) -> dict[str, Any]:
    return {**unstructure(site), "runner": runs_on(site.runner), **unstructure(request.validate)}


def _publish(plan: Plan) -> list[dict[str, Any]]:
    """Return the files that go to PyPI by its route, if the plan is stable, and the files for every other target.

    A commit without the tag of its version goes to folders only.
    """
    pypi, files = pypi_files(plan), _files(plan)
    released = plan.edition != UNTAGGED
    taking = (target for target in plan.request.publish.targets if released or is_local(target))
    targets = [{"target": target, "files": files} for target in taking]
    return [*([{"target": "pypi", "files": pypi}] if pypi else []), *targets]


def pypi_files(plan: Plan) -> list[str]:
    """Return the names of the files that go to PyPI: by its route, and only for a stable plan."""
    everybody = plan.edition.channel is Channel.STABLE  # pip --pre would take a nightly from PyPI
    return [file for file in _files(plan) if everybody and goes_to_pypi(plan, file)]


def targets(plan: Plan) -> tuple[str, ...]:
    """Return the addresses to which a release of the plan goes: its targets, and PyPI if any of its files go there."""
    return (*plan.request.publish.targets, *(["pypi"] if pypi_files(plan) else []))


def _files(plan: Plan) -> list[str]:
    wheels = [*(job.wheel for job in plan.jobs), *(job.public for job in plan.jobs if job.public)]
    return [*wheels, *([plan.sdist] if plan.sdist else [])]


def goes_to_pypi(plan: Plan, file: str) -> bool:
    """Whether the route to PyPI takes the file: PyPI rejects local versions, and `smart` is only the sdist."""
    if file == plan.sdist:
        return plan.request.publish.pypi is not Route.NONE
    return plan.request.publish.pypi is Route.WHEELS and "+" not in file
