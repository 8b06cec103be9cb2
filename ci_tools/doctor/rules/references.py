"""Rules for the names in expressions: GitHub takes an unknown one for an empty text, and says nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ci_tools.catalog import tables
from ci_tools.doctor.documents import (
    CALL,
    ContextReference,
    WorkflowDocument,
    WorkflowStep,
    contexts_in,
    items_of,
    one_line,
    scalar_of,
    strings,
    table_of,
)
from ci_tools.doctor.expressions import Open, Unknown
from ci_tools.doctor.placed_jobs import rows_of
from ci_tools.doctor.report import DoctorFinding, Weight, report
from ci_tools.doctor.workflow_set import WorkflowSet
from ci_tools.errors import close_names, nearest
from ci_tools.github.workflow_keys import find_key_flaws

REFUSED = "GitHub refuses the file"
CONTEXTS = tables.read("contexts")
CRON = CONTEXTS["cron"]
ACTIONS: dict[str, dict[str, Any]] = tables.read("actions")


def _has(name: str, names: Iterable[str]) -> bool:
    """Whether a name is among some, compared as GitHub does: without case."""
    return name.lower() in {one.lower() for one in names}


def check_input_names(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the inputs that are used, but declared nowhere in the file."""
    inputs = file.declared("inputs")
    for keys, context, names in file.references:
        if context == "inputs" and names and not _has(names[0], inputs):  # `inputs` as a whole is passed on by toJSON
            what = f"inputs.{names[0]} is declared nowhere"
            yield report("input-name", file.where(keys), what, nearest(names[0], inputs))


def check_secret_names(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the secrets that a called workflow uses without taking them: only one that inherits all has others."""
    callers = [call for caller in known.workflows for call in known.calls(caller) if call.called is file]
    inherits = [call for call in callers if call.file.jobs[call.job].get("secrets") == "inherit"]
    taken = {*file.declared("secrets", CALL), "GITHUB_TOKEN"}
    for keys, context, names in file.references if set(file.triggers) == {CALL} and not inherits else ():
        if context == "secrets" and names and not _has(names[0], taken):
            what = f"secrets.{names[0]} is not among the secrets that this workflow takes"
            yield report("secret-name", file.where(keys), what, f"`on: workflow_call: secrets: {names[0]}:`")


def check_needs(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the jobs in `needs:` that do not exist, or that wait for each other."""
    for job in file.jobs:
        keys = ("jobs", job, "needs")
        for need in (one for one in file.needs(job) if not _has(one, file.jobs)):
            yield report("needs", file.where(keys), f"there is no job {need}", nearest(need, file.jobs))
        if job in file.all_needs(job):  # of others, so a job is among its own only in a circle
            yield report("needs", file.where(keys), f"{job} waits for itself", "leave out one `needs:` of the circle")


def check_workflow_names(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the workflows in `workflow_run` that do not exist: a pattern may mean any."""
    names = [*(one.name for one in known.workflows), *CONTEXTS["own-workflows"]]
    for name in file.awaited:
        if name not in names and "*" not in name and not known.broken:  # one of those may have the name
            what, keys = f"no workflow has the name {one_line(name)}", ("on", "workflow_run", "workflows")
            yield report("workflow-name", file.where(keys), what, nearest(name, names))


def check_events(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the events and activities that are misspelt: GitHub may have others than those that are known here."""
    for event, filters in file.triggers.items():
        said = [(str(one), CONTEXTS["events"].get(event, ())) for one in items_of(table_of(filters).get("types"))]
        for name, names in ((event, CONTEXTS["events"]), *said):
            if name not in names and close_names(name, names, cutoff=0.75):  # GitHub may have added one since
                keys = ("on", event, "types") if name != event else ("on", event)
                yield report("event", file.where(keys), f"there is no event {one_line(name)}", nearest(name, names))


def check_filters(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield filters that GitHub does not take together, and those of files where a push of tags only starts a run.

    https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax#onpushpull_requestpull_request_targetpathspaths-ignore
    """
    for event, filters in file.triggers.items():
        names = sorted(table_of(filters))
        is_for_tags = event == "push" and any(name.startswith("tags") for name in names)
        for name in names:
            keys, plain = ("on", event, name), name.removesuffix("-ignore")
            if plain in names and plain != name:
                yield report("filter/both", file.where(keys), f"`{plain}:` and `{name}:` are not taken together")
            if plain == "paths" and is_for_tags and not any(other.startswith("branches") for other in names):
                yield report("filter/tags", file.where(keys), f"`{name}:` chooses nothing")


def check_schedules(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the times of `on: schedule` that GitHub does not read.

    https://docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows#schedule
    """
    said = file.triggers.get("schedule")
    times = enumerate(said) if isinstance(said, list) else [(None, said)] * ("schedule" in file.triggers)
    for at, item in times:
        cron = scalar_of(table_of(item).get("cron"))
        how = "a list: `- cron: …`" if at is None else _expect_time(cron)
        if how:
            keys = ("on", "schedule") if at is None else ("on", "schedule", at)
            what = f'GitHub cannot read "{one_line(cron)}" in the schedule' if cron else "the schedule has no time"
            yield report("schedule", file.where(keys), what, how)


def _expect_time(cron: str) -> str:
    """Return what is expected of a time of a schedule; "" if GitHub reads it."""
    fields = cron.lower().split()
    if len(fields) != len(CRON):
        return 'five fields, as in "17 3 * * 1"'
    for field, (name, least, most, words) in zip(fields, CRON, strict=True):
        part = rf"(?:\*|(?:\d+{words})(?:-(?:\d+{words}))?)(?:/[1-9]\d*)?"
        numbers = re.findall(r"(?<![\w/])\d+", field)  # not the step after the slash
        if not re.fullmatch(rf"{part}(?:,{part})*", field) or any(not least <= int(one) <= most for one in numbers):
            return f"{least} to {most} for the {name}, not {one_line(field)}"
    return ""


def check_keys(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the keys that GitHub does not take where they are, and regular expressions that choose branches or tags."""
    for rule, place, what, why, how in find_key_flaws(file.value) if not file.is_action else ():
        yield DoctorFinding(rule, Weight.ERROR, file.where(place), one_line(what), why, one_line(how))


def check_contexts(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the contexts that GitHub does not know where they are used, such as secrets in the `if:` of a job."""
    places = [(("jobs", job, key), value) for job, keys in file.jobs.items() for key, value in keys.items()]
    for keys, value in (*places, *(((key,), value) for key, value in file.value.items())):
        known = CONTEXTS["job" if keys[1:] else "workflow"].get(keys[-1])
        for at, text in strings(value, keys) if known else ():
            for name in sorted(contexts_in(at, text) & set(CONTEXTS["all"]) - set(known)):
                how = f"of these: {', '.join(known)}"
                yield report("context", file.where(at), f"`{keys[-1]}:` uses {name}, which it cannot see", how)


def check_job_names(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the jobs and outputs of jobs that an expression names, but that do not exist or are not needed."""
    for reference in file.references:
        if reference.context not in {"needs", "jobs"} or not reference.names or reference.names[0] == "*":
            continue
        job, *rest = reference.names
        value = next((value for name, value in file.jobs.items() if name.lower() == job.lower()), None)
        if value is None:
            yield report("job-name", file.where(reference.keys), f"there is no job {job}", nearest(job, file.jobs))
        elif reference.context == "needs" and not _has(job, file.needs(reference.job)):
            what = f"needs.{job} is used, but {reference.job or 'it'} does not need {job}"
            yield report("not-needed", file.where(reference.keys), what, f"in that job: `needs: {job}`")
        elif rest[:1] == ["outputs"] and rest[1:]:
            outputs = _job_outputs(file, value, known)
            if outputs is not None and not _has(rest[1], outputs):
                what, how = f"the job {job} has no output {rest[1]}", nearest(rest[1], outputs)
                yield report("output-name", file.where(reference.keys), what, how)


def _job_outputs(file: WorkflowDocument, job: Mapping[str, Any], known: WorkflowSet) -> list[str] | None:
    if "uses" not in job:
        return list(table_of(job.get("outputs")))  # without the key it has none
    called = known.called(file, str(job["uses"]), is_job=True)
    return list(called.declared("outputs", CALL)) if isinstance(called, WorkflowDocument) else None


def check_step_names(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the steps that an expression names, but that do not exist or come later, and outputs that they lack."""
    for reference in file.references:
        if reference.context != "steps" or not reference.names or reference.names[0] == "*":
            continue
        name, *rest = reference.names
        before = _steps_before(file, reference)
        step = before.get(name.lower())
        if step is None:
            what = f"no step before this one has the id {name}"
            yield report("step-name", file.where(reference.keys), what, nearest(name, before))
        elif rest[:1] == ["outputs"] and rest[1:]:
            outputs = _step_outputs(file, step, known)
            if outputs is not None and not _has(rest[1], outputs):
                what, how = f"{step.action} has no output {rest[1]}", nearest(rest[1], outputs)
                yield report("output-name", file.where(reference.keys), what, how)


def _steps_before(file: WorkflowDocument, reference: ContextReference) -> dict[str, WorkflowStep]:
    """Return the steps that have run where a reference stands, by their ids in lower case."""
    keys = reference.keys
    parent = keys[:2] if keys[0] == "jobs" else ("runs",)
    within = keys[len(parent) : len(parent) + 1] == ("steps",)
    last = int(keys[len(parent) + 1]) if within else len(file.steps)
    steps = (step for step in file.steps if step.keys[: len(parent)] == parent and int(step.keys[-1]) < last)
    return {str(step.value["id"]).lower(): step for step in steps if "id" in step.value}


def _step_outputs(file: WorkflowDocument, step: WorkflowStep, known: WorkflowSet) -> list[str] | None:
    """Return the outputs of a step's action; None if it is not known, or for a command."""
    called = known.called(file, step.uses, is_job=False) if step.uses else None
    if isinstance(called, WorkflowDocument):
        is_script = table_of(called.value.get("runs")).get("using") != "composite"  # which may set others
        return None if is_script and step.uses[:1] not in ".$" else list(called.declared("outputs"))
    return ACTIONS[step.action]["outputs"] if step.action in ACTIONS else None


def check_matrix_names(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the columns of a matrix that an expression names, but that no row has."""
    for reference in file.references:
        job = file.jobs.get(reference.job or "")
        if reference.context != "matrix" or not reference.names or job is None or "*" in reference.names:
            continue
        rows, path = rows_of(job, Open()), ".".join(reference.names)
        if _has_default(file, reference):  # `matrix.x || 'y'` is meant for rows without it
            continue
        if "matrix" not in table_of(job.get("strategy")):
            what = f"matrix.{path} is used, but the job {reference.job} has no matrix"
            yield report("matrix-name", file.where(reference.keys), what, "in that job: `strategy: matrix:`")
        elif rows is not None and not any(_may_have(row, reference.names) for row in rows):
            names = {name for row in rows for name in row}
            what, how = f"the matrix of {reference.job} has no {path}", nearest(reference.names[0], names)
            yield report("matrix-name", file.where(reference.keys), what, how)


def _has_default(file: WorkflowDocument, reference: ContextReference) -> bool:
    """Whether `||` gives a value where a row has none."""
    text = next(text for keys, text in strings(file.value) if keys == reference.keys)
    name = re.escape(".".join((reference.context, *reference.names)))
    return re.search(rf"{name}\s*\|\|", text, re.IGNORECASE) is not None


def _may_have(value: Any, names: tuple[str, ...]) -> bool:  # noqa: ANN401
    if not names or isinstance(value, Unknown) or (isinstance(value, str) and "${{" in value):  # it may have any part
        return True
    found = {key.lower(): item for key, item in table_of(value).items()}
    return names[0].lower() in found and _may_have(found[names[0].lower()], names[1:])


REFERENCE_RULES = (
    check_input_names,
    check_secret_names,
    check_needs,
    check_workflow_names,
    check_events,
    check_filters,
    check_schedules,
    check_keys,
    check_contexts,
    check_job_names,
    check_step_names,
    check_matrix_names,
)
