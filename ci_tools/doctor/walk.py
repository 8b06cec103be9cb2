"""Walks the jobs of a run in the order in which GitHub starts them, supposing that every job that runs does well.

The outputs of Fatwheel's own steps are known by the plan of the config; those of any other step are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from ci_tools.doctor.documents import (
    ACCESSES,
    CALL,
    EVERY,
    Grants,
    WorkflowDocument,
    WorkflowStep,
    access,
    condition_of,
    granted_to,
    one_line,
    table_of,
)
from ci_tools.doctor.expressions import UNKNOWN, Open, evaluate_condition, join
from ci_tools.doctor.placed_jobs import (
    MAX_ROWS,
    ForetoldPlan,
    PlacedJob,
    RunStart,
    given_inputs,
    rows_of,
    see_row,
    value_of,
)
from ci_tools.doctor.report import Unseen
from ci_tools.doctor.workflow_set import DEEPEST, WorkflowSet

MAX_JOBS = 2_000  # of a run: the rest of a hostile file is left out
STEP = re.compile(r"\bfatwheel ci step (\w+)")
# Variables without which the plan is the same: unknown ones are left out.
OPTIONAL = frozenset({"GH_TOKEN", "WITH_BASE", "WITH_PRIVATE", "WITH_TARGET", "WITH_TO"})


# Returns what `fatwheel ci step plan`, `due` or `projects` makes of these variables, or why it is not known.
Planner: TypeAlias = "Callable[[str, Mapping[str, str]], ForetoldPlan | Unseen]"


class JobEnd(NamedTuple):
    """The result and the outputs of a job, of all rows of its matrix together."""

    is_well: bool | None  # False: it was skipped
    outputs: Any
    stage: int
    condition: str

    @property
    def context(self) -> dict[str, Any]:
        """What `needs.JOB` and `jobs.JOB` are."""
        result = UNKNOWN if self.is_well is None else "success" if self.is_well else "skipped"
        return {"result": result, "outputs": self.outputs}


@dataclass(frozen=True)
class _Call:
    """A workflow within a run: the one that was started, or a called one."""

    known: WorkflowSet
    planner: Planner
    file: WorkflowDocument
    contexts: Open
    is_fork: bool
    path: tuple[tuple[WorkflowDocument, str], ...] = ()
    names: tuple[str, ...] = ()  # of the jobs in the path, each with its row
    grants: Grants | None = None  # the most that its jobs may have; None: no limit
    runs: bool | None = True
    condition: str = ""
    stage: int = 0
    plans: list[ForetoldPlan | Unseen] = field(default_factory=list)  # of the run, the newest last
    jobs: list[PlacedJob] = field(default_factory=list)  # of the run


def walk(
    known: WorkflowSet,
    file: WorkflowDocument,
    contexts: Open,
    planner: Planner,
    *,
    is_fork: bool = False,
    condition: str = "",
) -> list[PlacedJob]:
    """Return every job of the run of a workflow, each after those that it waits for, and a call before its jobs.

    `condition` is what starts the run, if only the event knows.
    """
    runs = None if condition else True
    call = _Call(known, planner, file, contexts, is_fork, runs=runs, condition=condition)
    _walk(call)
    return call.jobs


def place_jobs(known: WorkflowSet, file: WorkflowDocument, start: RunStart) -> list[PlacedJob]:
    """Return every job of the run that an event starts, of whose plans nothing is known."""
    key = (file.path, start)
    if key not in known.placed:  # each rule asks for it again
        contexts = start.contexts(file, known.repository)
        known.placed[key] = walk(known, file, contexts, lambda *_: Unseen("", ""))
    return known.placed[key]


def _walk(call: _Call) -> dict[str, JobEnd]:
    """Add the jobs of a workflow to those of the run; return how each ends."""
    ends: dict[str, JobEnd] = {}
    for job in _in_order(call.file):
        ends[job] = _walk_job(call, job, ends)
    return ends


def _in_order(file: WorkflowDocument) -> Iterator[str]:
    """Yield the jobs of a workflow, each after those that it needs; jobs in a circle are refused by GitHub."""
    waiting = dict(file.jobs)
    while ready := [job for job in waiting if not set(file.needs(job)) & waiting.keys()]:
        yield from ready
        waiting = {job: value for job, value in waiting.items() if job not in ready}


def _walk_job(call: _Call, job: str, ends: Mapping[str, JobEnd]) -> JobEnd:
    value = call.file.jobs[job]
    before = [ends[need] for need in call.file.all_needs(job) if need in ends]  # see `_decide`
    needs = {need: ends[need].context for need in call.file.needs(job) if need in ends}
    contexts = Open({**call.contexts, "needs": needs})
    runs, condition = _decide(call, condition_of(value), contexts, before)
    rows = rows_of(value, contexts) if runs is not False else [{}]
    stage = max([call.stage, *(end.stage for end in before)]) + 1  # after the last of them
    end = JobEnd(runs, Open() if runs is None else {}, stage, condition)
    handed: list[JobEnd] = []
    for number, row in enumerate([None] if rows is None else rows[:MAX_ROWS]):  # GitHub refuses more
        # Nothing is known of the row of a job that is skipped.
        sees = see_row(call.file, job, contexts, None if runs is False else row, number, len(rows or ()))
        placed = PlacedJob(
            file=call.file,
            job=job,
            path=(*call.path, (call.file, job)),
            calls=call.names,
            contexts=sees,
            row=row,
            runs=runs,
            condition=condition,
            stage=stage,
            grants=_grants(call, job),
        )
        if len(call.jobs) < MAX_JOBS:  # calls of calls with matrices multiply
            handed.append(_walk_row(call, placed, end))
    return _unite(handed, end) if runs is not False else end


def _walk_row(call: _Call, placed: PlacedJob, end: JobEnd) -> JobEnd:
    """Add one row of a job, or the jobs of the workflow that it calls; return how it ends."""
    value = placed.value
    if "uses" not in value:
        seen = Open({**placed.contexts, "steps": _foretell(call, placed)})
        handed = {name: value_of(text, seen) for name, text in table_of(value.get("outputs")).items()}
        call.jobs.append(replace(placed, plan=_plan_of(call, placed)))
        return end._replace(outputs=handed) if end.is_well else end
    called = call.known.called(call.file, str(value["uses"]), is_job=True)
    if not isinstance(called, WorkflowDocument) or len(placed.path) > DEEPEST:  # a workflow may call itself
        unseen = called.what if isinstance(called, Unseen) else one_line(str(value["uses"]))
        call.jobs.append(replace(placed, unseen=unseen))
        return end._replace(outputs=Open()) if end.is_well else end
    inputs = given_inputs(called, table_of(value.get("with")), placed.contexts)
    call.jobs.append(replace(placed, is_call=True))
    contexts, names = Open({**call.contexts, "inputs": inputs}), (*call.names, f"{placed.job}{placed.words}")
    inner = replace(call, file=called, contexts=contexts, path=placed.path, names=names, grants=placed.grants)
    ends = _walk(replace(inner, runs=placed.runs, condition=placed.condition, stage=placed.stage - 1))
    seen = Open({"jobs": {name: one.context for name, one in ends.items()}, "inputs": inputs})
    declared = called.declared("outputs", CALL)
    outputs = {name: value_of(table.get("value"), seen) for name, (_, table) in declared.items()}
    end = end._replace(stage=max((one.stage for one in ends.values()), default=end.stage))
    if not end.is_well or any(one.is_well for one in ends.values()):
        return end._replace(outputs=outputs) if end.is_well else end
    open_ = next((one.condition for one in ends.values() if one.condition), "")
    # No page of GitHub says what the result of a call is whose jobs are all skipped.
    return JobEnd(None, outputs, end.stage, open_ or f"{placed.job} counts as successful: all its jobs are skipped")


def _unite(several: Sequence[JobEnd], end: JobEnd) -> JobEnd:
    """Return the end of all rows together: of outputs that differ it is not known which row's is kept."""
    if not several:
        return end
    outputs = several[0].outputs
    if any(one.outputs != outputs for one in several):  # GitHub keeps the outputs of the row that ends last
        outputs = {name: UNKNOWN for one in several for name in one.outputs}
    stage = max(one.stage for one in several)
    return several[0]._replace(is_well=join([one.is_well for one in several]), outputs=outputs, stage=stage)


def _decide(call: _Call, written: str, contexts: Open, before: Sequence[JobEnd]) -> tuple[bool | None, str]:
    """Return whether a job runs, and the condition that only a run knows.

    A job is skipped with one of those before it, however far before, unless its condition names a status function.
    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#jobsjob_idneeds
    """
    is_well = join([end.is_well for end in before])
    holds = evaluate_condition(written, contexts, is_well=is_well, has_failed=False)
    runs = join([call.runs, holds])
    if runs is not None:
        return runs, ""
    alone = evaluate_condition(written, contexts, is_well=True, has_failed=False)
    others = [call.condition, *(end.condition for end in before)]
    own = one_line(re.sub(r"\s+", " ", written).strip().removeprefix("${{").removesuffix("}}").strip())
    return None, own if alone is None else next(filter(None, others), own)


def _grants(call: _Call, job: str) -> Grants | None:
    """Return a job's permissions: those of its caller at most, and nothing to write for a proposal from a fork.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#permissions
    """
    own = granted_to(call.file, job)
    own = call.grants if own is None else own
    if own is None:
        return None
    limit = {EVERY: "read", "id-token": "none"} if call.is_fork else {EVERY: ACCESSES[-1]}
    most = limit if call.grants is None else call.grants  # a called workflow can only lower them
    rank = ACCESSES.index
    scopes = {*own, *most, *limit} if EVERY in own else own
    capped = {scope: min((access(own, scope), access(most, scope), access(limit, scope)), key=rank) for scope in scopes}
    return {scope: wanted for scope, wanted in capped.items() if wanted != ACCESSES[0] or EVERY in own}


# -- what Fatwheel's own steps write


def _foretell(call: _Call, placed: PlacedJob) -> Open:
    """Return what is known of the outputs of a job's steps: those that a plan determines."""
    found = Open()
    for step in placed.file.steps_of(placed.job) if placed.runs is not False else ():
        match = STEP.search(step.run)
        name = match[1] if match else ""
        if name == "recipe":  # the run itself writes the config that it plans
            break
        made = _plan(call, placed, step, name) if name in {"plan", "due", "projects"} else None
        call.plans.extend([made] if made and name != "projects" else ())
        plan = made or (call.plans[-1] if call.plans else None)  # the steps after it read its plan
        outputs = plan.outputs.get(name) if isinstance(plan, ForetoldPlan) else None
        if name == "projects" and "WITH_FOLDER" in table_of(step.value.get("env")):
            outputs = _collect(call.plans)
        if outputs is not None:
            found[str(step.value.get("id", ""))] = {"outputs": Open(outputs)}
    return found


def _collect(plans: Sequence[ForetoldPlan | Unseen]) -> dict[str, str]:
    """Return the outputs of the step that collects those of several projects; none if one is not known."""
    known = [plan for plan in plans if isinstance(plan, ForetoldPlan)]
    built = [plan for plan in known if plan.files and not plan.left]
    kinds = {
        "built": built,
        "releases": [plan for plan in built if plan.channel != "none"],
        "pypi": [plan for plan in built if plan.outputs["gather"]["pypi"] == "true"],
    }
    names = ("config", "package", "version", "channel")
    rows = {
        kind: [{"artifacts": plan.prefix, **{name: getattr(plan, name) for name in names}} for plan in several]
        for kind, several in kinds.items()
    }
    return {kind: json.dumps(several) for kind, several in rows.items()} if len(known) == len(plans) else {}


def _plan(call: _Call, placed: PlacedJob, step: WorkflowStep, name: str) -> ForetoldPlan | Unseen:
    github = placed.contexts["github"]
    given = {variable: placed.fill(text) for variable, text in table_of(step.value.get("env")).items()}
    given |= {"GITHUB_EVENT_NAME": github["event_name"], "GITHUB_REF": github["ref"]}
    unknown = [variable for variable, text in given.items() if text is None and variable not in OPTIONAL]
    if unknown:  # else it would be another plan
        return Unseen(f"the plan, whose {unknown[0].removeprefix('WITH_').lower()} is known only in the run", "a run")
    plan = call.planner(name, {variable: text for variable, text in given.items() if text is not None})
    inputs = placed.contexts["inputs"]
    prefix = inputs.get("artifacts", "") if isinstance(inputs, dict) else ""
    return plan._replace(prefix=str(prefix)) if prefix and isinstance(plan, ForetoldPlan) else plan


def _plan_of(call: _Call, placed: PlacedJob) -> ForetoldPlan | Unseen | None:
    """Return the plan whose files a job downloads, or the one of its own workflow."""
    taken = (step for step in placed.file.steps_of(placed.job) if step.action == "actions/download-artifact")
    names = [name for step in taken if (name := placed.fill(step.given.get("name", step.given.get("pattern", ""))))]
    known = [plan for plan in call.plans if isinstance(plan, ForetoldPlan)]
    found = [plan for plan in known if any(name.startswith(f"{plan.prefix}-") for name in names)]
    if found:
        # the longest: `fatwheel-a-b` also begins like one of `fatwheel-a`
        return max(found, key=lambda plan: len(plan.prefix))
    return call.plans[-1] if call.plans and not names else None
