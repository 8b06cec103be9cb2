"""Rehearses events: the runs that each starts, with the files that their jobs publish, their rights and their cost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ci_tools.catalog.runner_labels import is_hosted, runner_labels
from ci_tools.doctor.documents import OWN_TOKEN, SECRET, is_computed, items_of, one_line, table_of
from ci_tools.doctor.expressions import Unknown, fill
from ci_tools.doctor.placed_jobs import SYSTEMS, ForetoldPlan, PlacedJob, RunStart, example_of, list_steps, starts_of
from ci_tools.doctor.rehearsal.events import Asked, EventKind, RehearsedEvent, list_events, starts
from ci_tools.doctor.report import Unseen
from ci_tools.doctor.rules.releases import FATWHEEL, GITHUB, TAGS, list_publications
from ci_tools.doctor.walk import STEP, Planner, walk
from ci_tools.doctor.workflow_set import WorkflowSet
from ci_tools.doctor.workflows import INHERITED
from ci_tools.model.request import HOSTED_MINUTES

# https://docs.github.com/en/actions/reference/runners/github-hosted-runners#single-cpu-runners
SLIM_MINUTES = 15
AT_ONCE, AT_ONCE_MACOS = 20, 5  # jobs on GitHub's own runners: https://docs.github.com/en/actions/reference/limits
OWN = "self-hosted or larger"
PERHAPS = ", if its step runs"


class RehearsedRun(NamedTuple):
    """A run of a workflow; of a re-run, the jobs that start again where one failed."""

    workflow: str
    condition: str  # of the event, that is not known before; empty: it certainly starts the run
    jobs: tuple[PlacedJob, ...]
    failed: str = ""


class Rehearsal(NamedTuple):
    """The runs that each event starts."""

    known: WorkflowSet
    events: tuple[tuple[RehearsedEvent, tuple[RehearsedRun, ...]], ...]
    unseen: tuple[str, ...]  # what could not be planned, and why


def rehearse(known: WorkflowSet, planner: Planner, asked: Asked) -> Rehearsal:
    """Return the runs of the events that are asked for; `planner` makes the plans of their configs.

    Raises InputError for an event's inputs that no workflow takes.
    """
    unseen = {f"{problem.where}: {problem.what}": None for problem in known.broken}  # an ordered set

    def plan(step: str, environ: Mapping[str, str]) -> ForetoldPlan | Unseen:
        found = planner(step, environ)
        if isinstance(found, Unseen):
            unseen[f"{found.what}: {found.needs}"] = None
        return found

    plans = [plan("plan", {**environ, "GITHUB_EVENT_NAME": "push"}) for environ in _list_configs(known, planner)]
    tags = [found.tag for found in plans if isinstance(found, ForetoldPlan)]
    events = list_events(known, tags, asked)
    return Rehearsal(known, tuple((event, tuple(_list_runs(known, event, plan))) for event in events), tuple(unseen))


def _list_configs(known: WorkflowSet, planner: Planner) -> list[dict[str, str]]:
    """Return the configs that the runs of any event plan, as variables of the step that plans."""
    found: dict[tuple[str, str], None] = {}

    def note(step: str, environ: Mapping[str, str]) -> ForetoldPlan | Unseen:
        if step == "projects":
            return planner(step, environ)
        if step == "plan":
            found[(environ.get("WITH_CONFIG", ""), environ.get("WITH_REPOSITORY", ""))] = None
        return Unseen("", "")

    for file in known.started:
        tags = items_of(table_of(file.triggers.get("push")).get("tags"))
        of_tags = [RunStart("push", f"{TAGS}{example_of([str(tag)], '')}") for tag in tags]
        for start in dict.fromkeys([*of_tags, *starts_of(file)]):  # `starts_of` has one tag, a filter may name many
            walk(known, file, start.contexts(file, known.repository), note)
    return [{"WITH_CONFIG": config, "WITH_REPOSITORY": repository} for config, repository in found]


def _list_runs(known: WorkflowSet, event: RehearsedEvent, planner: Planner) -> Iterator[RehearsedRun]:
    for file in known.started:
        condition = starts(file, event)
        if condition is None:
            continue
        contexts = event.contexts(file, known.repository)
        jobs = walk(known, file, contexts, planner, is_fork=event.is_fork, condition=condition)
        run = RehearsedRun(file.path, condition, tuple(job for job in jobs if not job.is_call))
        yield from _list_again(run) if event.kind is EventKind.RERUN else [run]


def _list_again(run: RehearsedRun) -> Iterator[RehearsedRun]:
    """Yield what a re-run of failed jobs starts for each job that may have failed: that job, and all after it.

    https://docs.github.com/en/actions/managing-workflow-runs/re-running-workflows-and-jobs
    """
    first = {job.id: job for job in reversed(run.jobs) if job.runs is not False}  # of a matrix, its first row
    for name, failed in reversed(first.items()):
        after = (job for job in run.jobs if job.runs is not False and job.comes_after(failed))
        yield run._replace(failed=name, jobs=(failed, *after))


def to_json(found: Rehearsal) -> dict[str, Any]:
    """Return a rehearsal as JSON values, for scripts."""
    events = [
        {"kind": str(event.kind), "event": event.name, "ref": event.ref, "title": str(event), "file": event.file}
        | {"runs": [_run_values(found.known, run, is_fork=event.is_fork) for run in runs]}
        for event, runs in found.events
    ]
    return {"schema": 1, "repository": found.known.repository, "events": events, "unseen": list(found.unseen)}


def _run_values(known: WorkflowSet, run: RehearsedRun, *, is_fork: bool) -> dict[str, Any]:
    jobs = [
        {
            "job": job.id,
            "name": job.name,
            "row": job.row and {name: _known(value) for name, value in job.row.items()},
            "runs": job.runs,
            "condition": job.condition,
            "calls": job.unseen,
            "stage": job.stage,
            "runner": labels_of(job),
            "minutes": minutes_of(job),
            "rights": job.grants,
            "environment": environment_of(job),
            "secrets": [] if is_fork else name_secrets(job),
            "publishes": [one._asdict() for one in list_published(known, job)],
        }
        for job in run.jobs
    ]
    cost = [one._asdict() for one in costs_of(run.jobs)]
    head = {"workflow": run.workflow, "condition": run.condition, "failed": run.failed}
    return {**head, "jobs": jobs, "cost": cost, "waves": waves_of(run.jobs)}


def _known(value: Any) -> Any:  # noqa: ANN401 - of a matrix
    return None if isinstance(value, Unknown) else value  # JSON has no such value


class Publishing(NamedTuple):
    """The files that a job publishes, the target and the channel, as far as they are known before the run."""

    what: str
    to: str
    channel: str


class Cost(NamedTuple):
    """The jobs on one kind of runner, and the minutes after which GitHub ends them."""

    runner: str
    jobs: int
    minutes: int


def list_published(known: WorkflowSet, job: PlacedJob) -> Iterator[Publishing]:
    """Yield what a job publishes if it runs."""
    plan = job.plan
    for _, step, contexts, runs in list_steps(known, job) if job.runs is not False else ():
        found = STEP.search(step.run)  # in our own workflows
        if found and found[1] == "publish" and runs is not False:  # a step that certainly does not run says nothing
            written = table_of(step.value.get("env"))
            env = {name: fill(str(text), contexts) for name, text in written.items()}
            yield _of_fatwheel(job, env, _trace(job, str(written.get("WITH_TO", ""))))
    for one in list_publications(known, [job]):
        if one.what == FATWHEEL and not job.unseen:
            continue
        named = isinstance(plan, ForetoldPlan) and one.what != FATWHEEL
        what = f"{plan.package} {plan.version}" if named and isinstance(plan, ForetoldPlan) else ""
        what = what if one.is_sure or not job.runs else f"{what}{PERHAPS}".lstrip(", ")
        to = f"github:{known.repository}" if one.what == GITHUB and known.repository else one.what
        yield Publishing(what, to, plan.channel if named and isinstance(plan, ForetoldPlan) else "")


def _of_fatwheel(job: PlacedJob, env: dict[str, str | None], written: str) -> Publishing:
    """Return what `fatwheel publish` would do with these variables; PyPI takes stable releases only."""
    plan, to = job.plan, env.get("WITH_TO", "")
    if env.get("WITH_DRY_RUN") == "true":
        return Publishing("nothing: a dry run", "", "")
    if not isinstance(plan, ForetoldPlan):
        return Publishing("", to or written, plan.what if isinstance(plan, Unseen) else "")
    if plan.left:
        return Publishing(f"nothing: {plan.left}", "", plan.channel)
    if plan.channel == "none":
        return Publishing("refused: a commit without the tag of its version", "", "none")
    own = [f"or {plan.targets[0]}", *plan.targets[1:]] if to is None and plan.targets else plan.targets
    targets = [*([written] if to is None else []), *(to.split() if to else own)]
    targets += ["pypi"] if env.get("WITH_PYPI") == "true" else []
    taking = [target for target in targets if not target.startswith("pypi") or plan.channel == "stable"]
    files = f" {plan.version}, {plan.files} file{'s'[: plan.files != 1]}" if plan.files else ""
    return Publishing(f"{plan.package}{files}", " ".join(dict.fromkeys(taking)) or "no target", plan.channel)


def _trace(job: PlacedJob, text: str) -> str:
    """Return what a caller has written, for an input that is passed on as it is."""
    for file, caller in reversed(job.path[:-1]):
        found = re.fullmatch(r"\s*\$\{\{\s*inputs\.([\w-]+)\s*\}\}\s*", text)
        given = table_of(file.jobs[caller].get("with"))
        if not found or found[1] not in given:
            break
        text = str(given[found[1]])
    return one_line(text)


def name_secrets(job: PlacedJob) -> list[str]:
    """Return the secrets of the repository that a job names, and that its callers pass on to it."""
    *callers, (file, own) = job.path
    references = (one for one in file.references if one.job == own and one.context == "secrets" and one.names)
    names = {one.names[0] for one in references}
    for caller, calling in reversed(callers):
        passed = caller.jobs[calling].get("secrets")
        if passed != INHERITED:
            given = {name.lower(): str(text) for name, text in table_of(passed).items()}
            names = {found for name in names for found in SECRET.findall(given.get(name.lower(), ""))}
    return sorted(name for name in names if name.upper() != OWN_TOKEN)


def environment_of(job: PlacedJob) -> str:
    """Return the environment of a job, as it is written where only a run knows it."""
    written = job.value.get("environment")
    text = str((table_of(written).get("name") if isinstance(written, dict) else written) or "")
    found = job.fill(text)
    return _trace(job, text) if found is None else one_line(found)


def labels_of(job: PlacedJob) -> str:
    """Return the labels of a job's runner, as they are written where only a run knows them."""
    runs_on = job.value.get("runs-on")
    whole = table_of(runs_on)
    labels = [str(label) for label in items_of(whole.get("labels", whole.get("group")) if whole else runs_on)]
    return one_line(" ".join(label if (found := job.fill(label)) is None else found for label in labels))


def minutes_of(job: PlacedJob) -> int:
    """Return the minutes after which GitHub ends a job: its own runners have a limit beside the job's."""
    text, labels = job.fill(job.value.get("timeout-minutes", HOSTED_MINUTES)) or "", labels_of(job)
    minutes = int(float(text)) if re.fullmatch(r"\d+(\.\d+)?", text) else HOSTED_MINUTES
    return min(minutes, SLIM_MINUTES if labels == "ubuntu-slim" else HOSTED_MINUTES) if is_hosted(labels) else minutes


def _kind_of(job: PlacedJob) -> str:
    labels = labels_of(job)
    system = SYSTEMS.get(labels.partition("-")[0], "")
    known = runner_labels()
    is_hosted = labels in known.current or labels in known.leaving
    if not is_hosted:  # their names are known, so a larger one has another
        return "not known before" if is_computed(labels) else OWN
    return f"{system}, Arm" if labels.endswith("-arm") else system


def costs_of(jobs: Sequence[PlacedJob]) -> list[Cost]:
    """Return the cost of the jobs that run, or may run, by the kind of runner."""
    kinds: dict[str, list[int]] = {}
    for job in (job for job in jobs if job.runs is not False and not job.unseen):
        kinds.setdefault(_kind_of(job), []).append(minutes_of(job))
    return [Cost(kind, len(minutes), sum(minutes)) for kind, minutes in sorted(kinds.items())]


def waves_of(jobs: Sequence[PlacedJob]) -> int:
    """Return how many times an account with 20 jobs at once, 5 of them on macOS, starts as many as it may."""
    stages: dict[int, list[str]] = {}  # jobs of a stage may run at the same time
    for job in (job for job in jobs if job.runs is not False and not job.unseen):
        stages.setdefault(job.stage, []).append(_kind_of(job))
    hosted = {stage: [kind for kind in kinds if kind != OWN] for stage, kinds in stages.items()}
    macs = (sum(kind.startswith("macOS") for kind in kinds) for kinds in hosted.values())
    pairs = zip(hosted.values(), macs, strict=True)
    return sum(max(1, -(-len(kinds) // AT_ONCE), -(-number // AT_ONCE_MACOS)) for kinds, number in pairs)
