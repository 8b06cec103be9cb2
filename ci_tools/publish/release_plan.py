"""Reads the part of plan.json that publishing needs, strictly: the file may come from anywhere."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from ci_tools.errors import Problem, RejectedInput
from ci_tools.formats.schema import validator_class
from ci_tools.model.edition import is_template, tag_of, title_of
from ci_tools.model.files import FOLDER
from ci_tools.model.pep440 import read_version
from ci_tools.model.request import UNTAGGED, Route
from ci_tools.plan import plan_file
from ci_tools.plan.sites import is_for_gpu, requires_gpu
from ci_tools.publish.index.pages import project_and_version
from ci_tools.publish.units import Made, Offer, ReleasePlan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packaging.version import Version

    from ci_tools.model.request import Edition

    Json = Mapping[str, Any]

__all__ = ["parse", "read"]

SCHEMA = Path(__file__).with_name("release.schema.json")
HINT = "`fatwheel plan --out`, `fatwheel build` and `fatwheel release` write one"
MOST_SHOWN = 80  # characters of a value that a message shows


def read(path: Path) -> ReleasePlan:
    """Return the release in the plan at `path`; raise InputError if the file is not a plan."""
    return parse(plan_file.read(path), str(path))


def parse(plan: Json, where: str = "plan.json") -> ReleasePlan:
    """Return the release in a plan; raise RejectedInput with every value that our plans cannot have."""
    wrong = list(_misshapen(plan)) or list(_untrue(plan))
    if wrong:
        raise RejectedInput([Problem(where, what) for what in wrong], hint=HINT)
    project, request = plan["project"], plan["request"]
    edition = plan_file.edition_of(dict(plan)) or UNTAGGED  # _untrue has checked that it names one
    known = {"name": project["name"], "version": project["version"]}
    return ReleasePlan(
        project=project["name"],
        version=project["version"],
        edition=edition,
        source_sha256=plan["pins"]["source_sha256"],
        commit=plan["pins"]["commit"] or "",
        sdist=plan["sdist"] or "",
        jobs=tuple(map(_parse_job, plan["jobs"])),
        platforms=tuple(asked["platform"] for asked in request["platforms"]),
        optional=tuple(asked["platform"] for asked in request["platforms"] if not asked["required"]),
        apart=tuple(asked["platform"] for asked in request["platforms"] if asked.get("own_workflow")),
        targets=tuple(request["publish"]["targets"]),
        route=Route(request["publish"]["pypi"]),
        variants=request["publish"].get("variants", False),
        tag=tag_of(edition, request["release"]["tag"], known),
        title=title_of(edition, request["release"]["title"], known),
        offers=tuple(_offers(plan)),
        gpu_commands=tuple(_gpu_commands(plan)),
        awaiting_gpu=tuple(_awaiting_gpu(plan, edition)),
        added="".join(f"torch{torch}" for torch in request.get("run", {}).get("torch", ())),
    )


@functools.cache
def _validator() -> Any:  # noqa: ANN401 - a class that jsonschema makes
    return validator_class()(json.loads(SCHEMA.read_text(encoding="utf-8")))


def _misshapen(plan: Json) -> Iterator[str]:
    """Yield where a plan does not fit the schema."""
    for error in _validator().iter_errors(plan):
        keys = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in error.absolute_path)
        yield f"at {keys.lstrip('.') or 'its top'}: {error.message[:MOST_SHOWN]}"


def _untrue(plan: Json) -> Iterator[str]:
    """Yield the values of a plan that fit the schema but cannot be true."""
    name, text = plan["project"]["name"], plan["project"]["version"]
    version = read_version(text)
    if version is None:
        yield f'at project.version: "{text}" is not a version (PEP 440)'
        return
    if plan_file.edition_of(dict(plan)) is None:
        yield "at edition: expected the channel, candidate and date of one"
    if not plan["sdist"] and not plan["request"].get("run", {}).get("torch"):
        yield "at sdist: expected a file; only a run with --torch makes no sdist"
    for file in (
        *([plan["sdist"]] if plan["sdist"] else []),
        *(wheel for job in plan["jobs"] for wheel in (job["wheel"], job["public"]) if wheel),
    ):
        if not _is_of(file, name, version):
            yield f"{file} is not a wheel or sdist of {name} {version}"
    folders = ((job["name"], folder) for job in plan["jobs"] for folder in (job["folder"], *job["also"]))
    wrong = ((job, folder) for job, folder in folders if not FOLDER.fullmatch(folder))
    yield from (f"{job}: {folder!r} is not a folder of an index" for job, folder in wrong)
    named = plan["request"]["release"]
    templates = ((key, named[key]) for key in ("tag", "title") if not is_template(named[key]))
    yield from (f"at request.release.{key}: expected a template of {{name}} and {{version}}" for key, _ in templates)


def _is_of(file: str, name: str, version: Version) -> bool:
    try:
        whose, its = project_and_version(file)
    except ValueError:
        return False
    return (whose, its.public) == (canonicalize_name(name), version.public)


def _parse_job(job: Json) -> Made:
    accelerator = job["accelerator"] or {}
    return Made(
        job=job["name"],
        kind=job["kind"],
        platform=job["platform"] or "",
        python=job["python"],
        torch=job["torch"] or "",
        accelerator=accelerator.get("label", ""),
        archs=tuple(accelerator.get("archs", ())),
        toolchain=job["toolchain"],
        owner=job["owner"] or "",
        covers=tuple(job["covers"]),
        wheel=job["wheel"],
        public=job["public"] or "",
        folder=job["folder"],
        also=tuple(job["also"]),
    )


def _gpu_commands(plan: Json) -> Iterator[str]:
    for command in plan["request"].get("validate", {}).get("commands", ()):
        if command["needs_gpu"]:
            yield command["run"]


def _awaiting_gpu(plan: Json, edition: Edition) -> Iterator[str]:
    """Yield the jobs whose wheels must be tried on a GPU before a release."""
    request = plan["request"]
    if requires_gpu(request.get("validate", {}).get("gpu_trial", ""), edition):
        named = {asked["platform"] for asked in request["platforms"] if asked.get("gpu_runner")}
        labels = ((job, (job["accelerator"] or {}).get("label", "")) for job in plan["jobs"])
        yield from (job["name"] for job, label in labels if is_for_gpu(label, has_runner=job["platform"] in named))


def _offers(plan: Json) -> Iterator[Offer]:
    """Yield every combination that the config asks for, with its wheel or the reason why it has none."""
    wheels = {job["name"]: job["wheel"] for job in plan["jobs"]}
    for cell in (*plan["covered"], *plan["skipped"]):
        where = (cell["platform"], cell["accelerator"], cell["torch"], cell["python"])
        yield Offer(*where, file=wheels.get(cell.get("job", ""), ""), reason=cell["reason"])
