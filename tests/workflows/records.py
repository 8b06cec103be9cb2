"""act's records of a run, read into values: jobs with their steps, outputs, summaries, annotations and log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tests.workflows.rules import File

if TYPE_CHECKING:
    Record: TypeAlias = Mapping[str, Any]

ANNOTATIONS = frozenset({"error", "notice", "warning"})
LOOKED_UP = "LocalRepositoryCache "  # said of a job that calls a workflow, which has no other record
NO_RUNNER = "Skipping unsupported platform"
COMMAND = re.compile(r"::(?P<command>\w+)(?: (?P<pairs>.*?))?::(?P<text>.*)", re.DOTALL)
DATA = {"%0A": "\n", "%0D": "\r", "%25": "%"}
WORST = ("failure", "no runner", "cancelled", "success", "skipped")


class Annotation(NamedTuple):
    """What `::error file=…,line=…::message` and its kind show beside the code."""

    level: str
    message: str
    file: str
    line: str
    title: str


class Step(NamedTuple):
    """A step that ran: its name, `success`, `failure` or `skipped`, and what it handed on."""

    name: str
    result: str
    outputs: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job that ran or did not: `success`, `failure`, `cancelled`, `skipped`, or `no runner` for an unknown label."""

    id: str
    name: str
    path: str  # the names of the jobs and workflows that called it, joined by slashes
    result: str
    may_fail: bool  # by continue-on-error
    matrix: Mapping[str, Any]
    steps: tuple[Step, ...]
    summary: str
    annotations: tuple[Annotation, ...]
    log: str
    errors: tuple[str, ...] = ()  # what act itself could not do

    @property
    def outputs(self) -> dict[str, str]:
        """What all of the job's steps handed on."""
        return {name: value for step in self.steps for name, value in step.outputs.items()}

    def step(self, name: str) -> Step:
        """Return the one step of a name."""
        (found,) = (step for step in self.steps if step.name == name)
        return found


def read(stdout: str) -> list[Record]:
    return [json.loads(line) for line in stdout.splitlines() if line.startswith("{")]


def text(stdout: str) -> str:
    """Return the whole log, each line after the job that said it."""
    return "\n".join(f"{record.get('job', '').strip()}: {record.get('msg', '').rstrip()}" for record in read(stdout))


def jobs(stdout: str, workflows: Mapping[str, File], entry: File) -> tuple[Job, ...]:
    """Return every job that left a record, and those that left none because they were skipped or call others."""
    groups: dict[str, list[Record]] = {}
    for record in read(stdout):
        if "jobID" in record and not record.get("msg", "").startswith(LOOKED_UP):
            groups.setdefault(record["job"], []).append(record)
    ran = [_job(path.rstrip(), group, workflows) for path, group in groups.items()]
    seen = {entry.value["name"]: entry, **{name: file for job in ran for name, file in _within(job.path, workflows)}}
    silent = [_silent(name, file, ran) for file in seen.values() for name in file.jobs]
    return tuple(ran + [job for job in silent if job is not None])


def _within(path: str, workflows: Mapping[str, File]) -> list[tuple[str, File]]:
    return [(name, file) for name, file in workflows.items() if f"/{name}/" in f"/{path}"]


def _job(path: str, group: list[Record], workflows: Mapping[str, File]) -> Job:
    file = _file(path, group[0]["jobID"], workflows)
    excused = file is not None and "continue-on-error" in file.jobs[group[0]["jobID"]]
    unmapped = any(NO_RUNNER in record.get("msg", "") for record in group)
    return Job(
        id=group[0]["jobID"],
        name=_name(path, group[0], workflows),
        path=path,
        result="no runner" if unmapped else _result(group),
        may_fail=excused and group[0]["matrix"].get("required") is False,
        matrix=group[0]["matrix"],
        steps=tuple(_steps(group)),
        summary="\n".join(record["content"] for record in group if record.get("command") == "summary"),
        annotations=tuple(_annotation(record) for record in group if record.get("command") in ANNOTATIONS),
        log="".join(record["msg"] for record in group if record.get("raw_output")),
        errors=tuple(record["msg"] for record in group if _is_error(record)),
    )


def _result(group: list[Record]) -> str:
    """Return a job's own result: act tells every job of a matrix failed once one of them is."""
    told = next((record["jobResult"] for record in reversed(group) if "jobResult" in record), "cancelled")
    went_wrong = any(record.get("stepResult") == "failure" for record in group)
    went_wrong |= any(map(_is_error, group))
    return "success" if told == "failure" and not went_wrong else told


def _is_error(record: Record) -> bool:
    return bool(record["level"] == "error" and "command" not in record)


def _file(path: str, job: str, workflows: Mapping[str, File]) -> File | None:
    """Return the workflow file that a job stands in."""
    return next((file for _, file in _within(path, workflows) if job in file.jobs), None)


def _name(path: str, record: Record, workflows: Mapping[str, File]) -> str:
    """Return a job's own name, without those of its callers and the number that act adds to a matrix job."""
    if file := _file(path, record["jobID"], workflows):
        path = f"/{path}".rpartition(f"/{file.value['name']}/")[2]
    return re.sub(r"-\d+$", "", path) if record["matrix"] else path


def _steps(group: Iterable[Record]) -> Iterable[Step]:
    """Yield the steps of a job in order; those within a composite action belong to the step that uses it."""
    order: dict[str, tuple[str, str]] = {}
    outputs: dict[str, dict[str, str]] = {}
    for record in group:
        if record.get("stage") != "Main" or "stepID" not in record:
            continue
        own = record["stepID"][0]
        if record.get("command") == "set-output" and len(record["stepID"]) == 1:
            outputs.setdefault(own, {})[record["name"]] = record["arg"]
        if "stepResult" in record and len(record["stepID"]) == 1:
            order[own] = (record["step"], record["stepResult"])
    return [Step(name, result, outputs.get(own, {})) for own, (name, result) in order.items()]


def _annotation(record: Record) -> Annotation:
    """Return an annotation as GitHub reads its line, up to the first `::` of two; act reads up to the last."""
    match = COMMAND.match(record["raw"].strip())
    if match is None:  # the older form, ##[error]text
        return Annotation(record["command"], record["arg"], "", "", "")
    pairs = (pair.partition("=") for pair in (match["pairs"] or "").split(",") if pair)
    where = {name.strip(): _unescaped(value) for name, _, value in pairs}
    place = (where.get(name, "") for name in ("file", "line", "title"))
    return Annotation(match["command"], _unescaped(match["text"], DATA), *place)


def _unescaped(text: str, escapes: Mapping[str, str] | None = None) -> str:
    known = escapes or {**DATA, "%3A": ":", "%2C": ","}
    return re.sub("|".join(known), lambda match: known[match[0]], text)


def _silent(name: str, file: File, ran: list[Job]) -> Job | None:
    """Return a job that left no record of its own: one that calls a workflow, or one that was skipped."""
    title = str(file.jobs[name].get("name", name))
    if any(job.id == name and f"/{file.value['name']}/" in f"/{job.path}" for job in ran):
        return None
    pattern = re.sub(r"\\\$\\\{\\\{.*?\\\}\\\}", ".*", re.escape(title))  # what an expression makes is not known
    below = [job for job in ran if "uses" in file.jobs[name] and re.match(rf"{pattern}(-\d+)?/", job.path)]
    results = ["success" if job.may_fail else job.result for job in below]
    return Job(
        id=name,
        name=title,
        path=f"{file.value['name']}/{title}",
        result=min(results, key=WORST.index, default="skipped"),
        may_fail=False,
        matrix={},
        steps=(),
        summary="",
        annotations=(),
        log="",
    )


def silent(found: Iterable[Job], workflows: Mapping[str, File]) -> list[str]:
    """Return what act passes over without failing: labels without a runner, and matrices without a job in them."""
    problems = [f"the job {job.path} has no runner for its label" for job in found if job.result == "no runner"]
    for job in found:
        file = _file(job.path, job.id, workflows)
        wants = file is not None and "matrix" in file.jobs[job.id].get("strategy", {})
        if wants and not job.matrix and job.steps:
            problems.append(f"the job {job.path} ran with an empty matrix, which GitHub refuses")
    return problems
