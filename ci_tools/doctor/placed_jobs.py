"""The jobs of one run: those of the workflow that an event starts and of all that it calls, with what each sees."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ci_tools.doctor.documents import (
    CALL,
    DISPATCH,
    Grants,
    Table,
    WorkflowDocument,
    WorkflowStep,
    is_computed,
    items_of,
    table_of,
    whole_expression,
)
from ci_tools.doctor.expressions import UNKNOWN, Open, Unknown, evaluate, evaluate_condition, fill
from ci_tools.doctor.expressions.values import to_text
from ci_tools.doctor.report import Unseen
from ci_tools.doctor.workflow_set import WorkflowSet

OF_ONE_EVENT = ("comment", "inputs", "issue", "pull_request", "release", "schedule")  # null in any other event
MAX_ROWS = 256  # https://docs.github.com/en/actions/reference/limits
SYSTEMS = {"ubuntu": "Linux", "windows": "Windows", "macos": "macOS"}
RUN = {"sha": "0" * 40, "run_id": "1", "run_number": "1", "run_attempt": "1"}  # the same for all jobs of a run


class RunStart(NamedTuple):
    """An event that starts a run, and the ref that the run is for."""

    event: str
    ref: str

    @property
    def is_tag(self) -> bool:
        """Whether the run is for a tag."""
        return self.ref.startswith("refs/tags/")

    def contexts(self, file: WorkflowDocument, repository: str) -> Open:
        """Return what expressions of the started workflow see."""
        github: Mapping[str, Any] = {
            **RUN,
            "event_name": self.event,
            "ref": self.ref,
            "ref_name": self.ref.split("/", 2)[-1],  # refs/heads/a/b is a/b
            "ref_type": "tag" if self.is_tag else "branch",
            "head_ref": UNKNOWN if self.event.startswith("pull_request") else "",  # which the proposal names
            "workflow": file.name,
            "repository": repository or UNKNOWN,
            **({"event": Open(dict.fromkeys(OF_ONE_EVENT))} if self.event == "push" else {}),
        }
        return Open(github=Open(github), inputs=Open() if self.event == DISPATCH else {})

    def __str__(self) -> str:
        """Return it in words."""
        of = "a tag" if self.is_tag else "a branch"
        return {"push": f"a push of {of}", DISPATCH: "a start by hand on a branch"}.get(self.event, f"`{self.event}`")


def starts_of(file: WorkflowDocument) -> list[RunStart]:
    """Return one start for each event of a workflow: of `push`, one for branches and one for tags."""
    found = []
    for event, filters in file.triggers.items():
        table = table_of(filters)
        tags = [str(tag) for tag in items_of(table.get("tags"))]
        branches = [str(branch) for branch in items_of(table.get("branches"))]
        tag = RunStart(event, f"refs/tags/{example_of(tags, 'v1.0.0')}")
        if event == "push":
            of_tags, of_branches = ({kind, f"{kind}-ignore"} & set(table) for kind in ("tags", "branches"))
            found += [tag] if of_tags or not of_branches else []
            branch = RunStart(event, f"refs/heads/{example_of(branches, 'main')}")
            found += [branch] if of_branches or not of_tags else []  # and no filter lets all pass
        elif event == "release":
            found.append(tag)
        elif event.startswith("pull_request"):
            found.append(RunStart(event, "refs/pull/1/merge"))  # as merged into its base: github.ref of pull_request
        elif event != CALL:  # which starts no run: it is a part of its caller's
            found.append(RunStart(event, "refs/heads/main"))
    return found


def example_of(patterns: Sequence[str], otherwise: str) -> str:
    """Return a name that the first of some patterns matches."""
    first = next((pattern for pattern in patterns if not pattern.startswith("!")), otherwise)
    plain = re.sub(r"\[([^]]).*?\]", r"\1", first).replace("**", "1").replace("*", "1.0.0")
    return plain.replace("+", "").replace("?", "")


def rows_of(value: Table, contexts: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the rows of a job's matrix, one empty row without one; None if they are known only in a run.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax, `jobs.<job_id>.strategy.matrix`
    """
    matrix = _value(table_of(value.get("strategy")).get("matrix"), contexts)
    if matrix is None:
        return [{}]
    if not isinstance(matrix, dict):
        return None
    axes = {name: _value(values, contexts) for name, values in matrix.items() if name not in {"include", "exclude"}}
    included, excluded = (_value(matrix.get(key), contexts) for key in ("include", "exclude"))
    if isinstance(included, Unknown) or isinstance(excluded, Unknown):
        return None
    columns = [[UNKNOWN] if isinstance(values, Unknown) else items_of(values) for values in axes.values()]
    # `exclude` may remove some, and a hostile matrix has no end
    product = itertools.islice(itertools.product(*columns), MAX_ROWS * 4)
    rows = [dict(zip(axes, row, strict=True)) for row in product] if axes else []
    rows = [row for row in rows if not any(_fits(row, one) for one in map(table_of, items_of(excluded)))]
    return _include(rows, set(axes), [table_of(one) for one in items_of(included)])


def _include(rows: list[dict[str, Any]], axes: set[str], included: list[dict[str, Any]]) -> list[dict[str, Any]]:
    whole = [dict(row) for row in rows]
    for one in included:
        fitting = [number for number, row in enumerate(rows) if _fits(row, {k: v for k, v in one.items() if k in axes})]
        for number in fitting:
            whole[number].update(one)
        if not fitting:
            whole.append(dict(one))  # it fits none, so it is a row of its own
    return whole


def _fits(row: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    return all(name in row and row[name] == value for name, value in part.items())


def _value(value: Any, contexts: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return a value that may be an expression as a whole."""
    if not is_computed(value):
        return value
    whole = whole_expression(value)
    return UNKNOWN if whole is None else evaluate(whole, contexts)  # text around it: no matrix, but a text


class ForetoldPlan(NamedTuple):
    """The part of a plan that is known before the run whose first job makes it."""

    config: str
    package: str
    version: str
    channel: str  # stable, test, nightly or none
    tag: str  # of the version's stable release
    targets: tuple[str, ...]  # PyPI included, if its route takes files
    files: int
    outputs: dict[str, dict[str, str]]  # of the steps plan, trials and gather
    prefix: str = "fatwheel"  # of the names of its artifacts
    left: str = ""  # why it leaves the tag to another config


@dataclass(frozen=True, kw_only=True)
class PlacedJob:
    """A job of a run, or one row of its matrix, with what its expressions see."""

    file: WorkflowDocument
    job: str
    path: tuple[tuple[WorkflowDocument, str], ...]  # the jobs that call its workflow, then itself
    calls: tuple[str, ...]  # the names of the jobs that call its workflow, each with its row
    contexts: Open
    row: Mapping[str, Any] | None  # None: the matrix is known only in a run
    runs: bool | None  # whether its condition holds, and those of the jobs before it; None if only a run knows
    condition: str  # what has to hold; only a run knows it. Empty if it is known whether the job runs
    stage: int  # 1: it waits for no other job
    grants: Grants | None  # None: the default of the repository
    plan: ForetoldPlan | Unseen | None = None  # whose files it has
    unseen: str = ""  # the workflow that it calls and that could not be read
    is_call: bool = False  # whether the jobs of the workflow that it calls follow

    @property
    def value(self) -> Table:
        """The job as it is written."""
        return self.file.jobs[self.job]

    @property
    def id(self) -> str:
        """The names of the jobs that call it, each with its row, and its own."""
        return " / ".join((*self.calls, self.job))

    @property
    def words(self) -> str:
        """The values of its row, as GitHub adds them to the name of a job; empty without a matrix."""
        words = ", ".join(_list_words(self.row or {}))
        return f" ({words})" if words else ""

    @property
    def name(self) -> str:
        """Its name for a reader: the jobs that call it, and its own, with its row."""
        return f"{self.id}{self.words}"

    def comes_after(self, other: PlacedJob) -> bool:
        """Whether it starts when another job of the run has ended: calls in one matrix do not wait for each other."""
        names = zip((*self.calls, self.job), (*other.calls, other.job), strict=False)
        apart = next((number for number, (one, another) in enumerate(names) if one != another), None)
        if apart is None:  # one calls the other, or is a row of the same job
            return False
        (file, job), (_, another) = self.path[apart], other.path[apart]
        return another in file.all_needs(job)

    def fill(self, value: object) -> str | None:
        """Return a text with its expressions replaced; None if one is known only in a run."""
        return fill(str(value), self.contexts)


def _list_words(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _list_words(item)
    else:
        yield "?" if isinstance(value, Unknown) else to_text(value)


def see_row(
    file: WorkflowDocument, job: str, contexts: Open, row: Mapping[str, Any] | None, number: int, total: int
) -> Open:
    """Return what a job, or one row of its matrix, sees."""
    value = file.jobs[job]
    own = Open({**contexts, "secrets": Open(), "strategy": Open({"job-index": number, "job-total": total})})
    own["matrix"] = UNKNOWN if row is None else row
    own["env"] = _env(file.value, value, own)
    own["runner"] = _runner(value, own)
    return own


def given_inputs(called: WorkflowDocument, given: Mapping[str, Any], contexts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs that a called workflow or action sees."""
    types = {"boolean": False, "number": 0}  # GitHub's, for an input without a default
    declared = called.declared("inputs", CALL).items()
    defaults = {name: table.get("default", types.get(table.get("type", ""), "")) for name, (_, table) in declared}
    return {name: value_of(value, contexts) for name, value in {**defaults, **given}.items()}


def value_of(value: Any, contexts: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return a value as an input, a variable or an output gets it."""
    if not is_computed(value):
        return value
    whole = whole_expression(value)
    if whole is not None:
        return evaluate(whole, contexts)
    filled = fill(value, contexts)
    return UNKNOWN if filled is None else filled


def _env(workflow: Table, job: Table, contexts: Mapping[str, Any]) -> Open:
    """Return the variables that a workflow and a job set: a step, or a script, may add others."""
    together = {**table_of(workflow.get("env")), **table_of(job.get("env"))}
    return Open({name: value_of(value, contexts) for name, value in together.items()})


def _runner(job: Table, contexts: Mapping[str, Any]) -> Open:
    labels = [fill(str(label), contexts) for label in items_of(job.get("runs-on"))]
    label = labels[0] if len(labels) == 1 else None  # several name a runner of one's own
    system = SYSTEMS.get((label or "").partition("-")[0])  # `ubuntu-24.04-arm` is Linux, too
    return Open({"os": system} if system else {})


def list_steps(
    known: WorkflowSet, placed: PlacedJob
) -> Iterator[tuple[WorkflowDocument, WorkflowStep, Open, bool | None]]:
    """Yield the steps of a job and of the composite actions that it uses, with what each sees and whether it runs."""
    yield from _list(known, placed.file, placed.file.steps_of(placed.job), placed.contexts, 0)


def _list(
    known: WorkflowSet, file: WorkflowDocument, steps: Sequence[WorkflowStep], contexts: Open, depth: int
) -> Iterator[tuple[WorkflowDocument, WorkflowStep, Open, bool | None]]:
    for step in steps:
        own = Open({**contexts, "env": Open({**contexts["env"], **_env({}, step.value, contexts)})})
        runs = [evaluate_condition(step.condition, own, is_well=is_well) for is_well in (True, False)]
        yield file, step, own, True if True in runs else runs[0]
        called = known.called(file, step.uses, is_job=False) if step.uses.startswith(("./", "$/")) else None
        if isinstance(called, WorkflowDocument) and depth < 5:  # noqa: PLR2004 - deeper ones are rare
            inner = Open({**own, "inputs": given_inputs(called, step.given, own)})
            yield from _list(known, called, called.steps, inner, depth + 1)
