"""What publishing needs of a plan, read strictly: a plan.json may come from anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import Version

from ci_tools.errors import Problem, RejectedInput
from ci_tools.index.file_names import project_and_version
from ci_tools.index.units import JobEntry, Offer, ReleasePlan
from ci_tools.model.edition import ALIAS_FIELDS, is_template, tag_of, title_of
from ci_tools.model.plan import Job, Plan
from ci_tools.model.request import Globs, PathSource, Request
from ci_tools.model.versions import read_version
from ci_tools.plan import plan_reader
from ci_tools.plan.aliases import names_of
from ci_tools.plan.plan_file import hash_request
from ci_tools.plan.sites import awaiting_gpu


class Spelling(NamedTuple):
    """How a text of a release is spelled, and the words for it."""

    pattern: re.Pattern[str]
    expected: str


# A name may become part of a path, an address or a page: these are all the characters that ours have.
WORD = Spelling(re.compile(r"[A-Za-z0-9._+-]{0,100}"), "letters, digits and . _ + -, 100 at most")
LINE = Spelling(
    re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{0,10000}"),
    "one line of at most 10000 characters, none of which is a control character",
)
PROJECT = Spelling(
    re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"), "the name of a project such as my-project (PEP 508)"
)
VERSION = Spelling(re.compile(r"[A-Za-z0-9.!_-]{1,100}"), "a version such as 1.0 (PEP 440), without a local part")
WHEEL = Spelling(re.compile(r"[A-Za-z0-9_.+!-]+\.whl"), "the name of a wheel")
SDIST = Spelling(re.compile(r"[A-Za-z0-9_.!-]+\.tar\.gz"), "the name of an sdist")
SHA256 = Spelling(re.compile("[0-9a-f]{64}"), "64 hex digits")
TORCH = Spelling(re.compile(r"[0-9]{1,4}\.[0-9]{1,4}"), "a version of torch such as 2.15")
ALIAS = re.compile(r"[A-Za-z0-9.{}_]{1,100}")
MAX_SHOWN = 80  # characters of a value that a message shows


def read(path: Path) -> ReleasePlan:
    """Return the release in the plan at `path`; raise InputError if the file is not a plan."""
    return release_of(plan_reader.read(path), str(path))


def release_of(plan: Plan, where: str = "plan.json") -> ReleasePlan:
    """Return the release of a plan; raise RejectedInput with every value that our plans cannot have."""
    wrong = list(_misspelt(plan)) or list(_untrue(plan))  # of a misspelt text, nothing else is worth saying
    if wrong:
        problems = [Problem(where, f"plan.{key}: {what}") for key, what in wrong]
        raise RejectedInput(problems, hint=plan_reader.HINT)
    request = plan.request
    known = {"name": plan.project.name, "version": plan.project.version}
    return ReleasePlan(
        project=plan.project.name,
        version=plan.project.version,
        edition=plan.edition,
        source_sha256=plan.pins.source_sha256,
        commit=plan.pins.commit or "",
        sdist=plan.sdist or "",
        jobs=tuple(_made(job, request) for job in plan.jobs),
        platforms=tuple(str(asked.platform) for asked in request.platforms),
        optional=tuple(str(asked.platform) for asked in request.platforms if not asked.required),
        apart=tuple(str(asked.platform) for asked in request.platforms if asked.own_workflow),
        targets=request.publish.targets,
        route=request.publish.pypi,
        variants=request.publish.variants,
        tag=tag_of(plan.edition, request.release.tag, known),
        title=title_of(plan.edition, request.release.title, known),
        offers=tuple(_offers(plan)),
        gpu_commands=request.validate.gpu_commands,
        awaiting_gpu=tuple(job.name for job in awaiting_gpu(plan)),
        added="".join(f"torch{torch}" for torch in request.run.torch),
        aliases=names_of(plan),
        catalog=request.catalog,
        request_sha256=hash_request(request),
        is_foreign=not isinstance(request.source, PathSource),
    )


def _misspelt(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the keys of texts that are not spelled as ours are, and what was found and expected."""
    for key, text, spelling in _texts(plan):
        if text is not None and not spelling.pattern.fullmatch(text):
            shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"  # it may be as long as somebody likes
            yield key, f'found "{shown}", expected {spelling.expected}'


def _texts(plan: Plan) -> Iterator[tuple[str, str | None, Spelling]]:
    """Yield every text that a release takes from its plan, with its key."""
    request = plan.request
    yield "project.name", plan.project.name, PROJECT
    yield "project.version", plan.project.version, VERSION
    yield "pins.source_sha256", plan.pins.source_sha256, SHA256
    yield "sdist", plan.sdist, SDIST
    yield "request.release.tag", request.release.tag, LINE
    yield "request.release.title", request.release.title, LINE
    for number, target in enumerate(request.publish.targets):
        yield f"request.publish.targets[{number}]", target, LINE
    for number, torch in enumerate(request.run.torch):
        yield f"request.run.torch[{number}]", torch, TORCH
    for number, command in enumerate(request.validate.commands):
        yield f"request.validate.commands[{number}].run", command.run, LINE
    for number, job in enumerate(plan.jobs):
        at = f"jobs[{number}]"
        yield f"{at}.name", job.name, WORD
        yield f"{at}.owner", job.owner, LINE
        yield f"{at}.wheel", job.wheel, WHEEL
        yield f"{at}.public", job.public, WHEEL
        yield from ((f"{at}.accelerator.archs", arch, WORD) for arch in job.archs)
    for name, reasons in (
        ("covered", [one.reason for one in plan.covered]),
        ("skipped", [one.reason for one in plan.skipped]),
    ):
        first = {reason: number for number, reason in reversed([*enumerate(reasons)])}  # many cells share a reason
        yield from ((f"{name}[{number}].reason", reason, LINE) for reason, number in first.items())


def _untrue(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the keys of values that are well spelled but cannot be true."""
    name, text = plan.project.name, plan.project.version
    version = read_version(text)
    if version is None:
        yield "project.version", f'found "{text}", expected {VERSION.expected}'
        return
    if not plan.sdist and not plan.request.run.torch and plan.request.build.sdist:
        yield "sdist", "found null, expected a file; only a run with --torch and `sdist: false` make no sdist"
    files = [("sdist", plan.sdist)]
    for number, job in enumerate(plan.jobs):
        files += [(f"jobs[{number}].wheel", job.wheel), (f"jobs[{number}].public", job.public)]
    yield from (
        (key, f'found "{file}", expected a file of {name} {version}')
        for key, file in files
        if file and not _is_of(file, name, version)
    )
    for key, template in (("tag", plan.request.release.tag), ("title", plan.request.release.title)):
        if not is_template(template):
            yield f"request.release.{key}", f'found "{template}", expected a template of {{name}} and {{version}}'
    alias = plan.request.release.alias
    if alias is not None and not (ALIAS.fullmatch(alias) and is_template(alias, ALIAS_FIELDS)):
        yield "request.release.alias", f'found "{alias}", expected a template such as cu{{cuda_major}}torch{{torch}}'


def _is_of(file: str, name: str, version: Version) -> bool:
    try:
        whose, its = project_and_version(file)
    except ValueError:
        return False
    return (whose, its.public) == (canonicalize_name(name), version.public)


def _made(job: Job, request: Request) -> JobEntry:
    native = next((asked.native for asked in request.platforms if asked.platform is job.platform), Globs())
    return JobEntry(
        job=job.name,
        kind=str(job.kind),
        platform=str(job.platform or ""),
        python=str(job.python),
        torch=str(job.torch or ""),
        accelerator=job.accelerator.label if job.accelerator else "",
        archs=job.archs,
        toolchain=str(job.toolchain),
        owner=job.owner or "",
        covers=tuple(map(str, job.covers)),
        wheel=job.wheel,
        public=job.public or "",
        folder=job.folder,
        also=job.also,
        env=job.env,
        native=native,
        subdirectory=request.subdirectory,
    )


def _offers(plan: Plan) -> Iterator[Offer]:
    """Yield every combination that the config asks for, with its wheel or the reason why it has none."""
    wheels = {job.name: job.wheel for job in plan.jobs}
    ends = [(one.cell, wheels[one.job], one.reason) for one in plan.covered]
    for cell, file, reason in [*ends, *((one.cell, "", one.reason) for one in plan.skipped)]:
        label = cell.accelerator.label if cell.accelerator else ""
        yield Offer(str(cell.platform), label, str(cell.torch or ""), str(cell.python), file=file, reason=reason)
