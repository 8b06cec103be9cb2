"""Rules for what jobs run on: labels of runners with their dates, images, shells, and matrices."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ci_tools.catalog import tables
from ci_tools.catalog.runner_labels import RunnerLabels, is_hosted, runner_labels
from ci_tools.config.project_catalog import DEFAULT_FILE
from ci_tools.doctor.documents import (
    Keys,
    WorkflowDocument,
    expressions_of,
    is_computed,
    items_of,
    one_line,
    strings,
    table_of,
)
from ci_tools.doctor.expressions import Open, evaluate_condition, fill
from ci_tools.doctor.placed_jobs import MAX_ROWS, rows_of, see_row, starts_of
from ci_tools.doctor.report import DoctorFinding, Weight, report
from ci_tools.doctor.walk import place_jobs
from ci_tools.doctor.workflow_set import WorkflowSet
from ci_tools.doctor.workflows import TRUSTED_PUBLISHER
from ci_tools.errors import InputError, nearest
from ci_tools.formats.toml_file import find_table

NEAR = dt.timedelta(days=180)  # before the end of a label, from when on it is reported
# That GitHub knows by name: Workflow syntax, `jobs.<job_id>.steps[*].shell`.
SHELLS = frozenset({"bash", "cmd", "powershell", "pwsh", "python", "sh"})
# Images whose C library is older than 2.28, which the Node of GitHub's runners needs: actions do not start in them.
# https://github.com/actions/runner/issues/2906
OLD_IMAGE = re.compile(
    r"manylinux(?:1|2010|2014|_2_(?:5|12|17))_|(?:^|/)centos:(?:centos)?[5-7]|(?:^|/)ubuntu:1[0-8]\b|(?:^|/)debian:(?:[789]|stretch)\b"
)
CHOICE = re.compile(r"(?<![=!]=)(?<![=!]= )'([^']*)'(?!\s*[=!]=)")  # a text that is not compared
PYPA = re.compile(r"quay\.io/pypa/([\w-]+)(?:[:@].*)?")


def _labels_of(known: WorkflowSet) -> RunnerLabels:
    """Return the labels of the catalog, with those that the catalog of the project adds or ends."""
    text, base = known.fetch("", DEFAULT_FILE, ""), runner_labels()
    try:
        table: Any = (find_table(text, DEFAULT_FILE, ("runners",)) if isinstance(text, str) else None) or {}
        return base.extend(table)
    except (InputError, AttributeError, TypeError, ValueError):  # others' tables may hold anything
        return base  # `fatwheel plan` says what is wrong with it


def check_labels(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield labels without a runner: misspelt, gone or going, or several of GitHub's own at once."""
    for job, value in file.jobs.items():
        runs_on = value.get("runs-on")
        if isinstance(runs_on, dict):  # a group of the owner's own runners
            continue
        keys = ("jobs", job, "runs-on")
        hosted = [label for label in items_of(runs_on) if is_hosted(str(label))]  # one's own may have them all
        if len(hosted) > 1 and isinstance(runs_on, list):
            what = f"{job} asks for a runner with all of {', '.join(map(str, hosted))}"
            yield report("labels-together", file.where(keys), what)
            continue
        for label, where in dict.fromkeys(_labels(file, job, runs_on, keys, known)):
            yield from _check_label(job, label, where, known)


def _labels(
    file: WorkflowDocument, job: str, runs_on: object, keys: Keys, known: WorkflowSet
) -> Iterator[tuple[str, str]]:
    """Yield each label that a job may ask for, and its place: in the matrix, if the row has it."""
    strategy = ("jobs", job, "strategy")
    places = {text: at for at, text in strings(table_of(file.jobs[job].get("strategy")), strategy)}
    seen = _see(file, job, known)
    for label in items_of(runs_on):
        named = _fill(label, seen)
        # A label that only a run knows may still be one of those that its expression names, but not what it compares.
        named = named or {one for text in expressions_of(str(label)) for one in CHOICE.findall(text) if is_hosted(one)}
        for name in sorted(named):
            yield name, file.where(places.get(name, keys))


def _see(file: WorkflowDocument, job: str, known: WorkflowSet) -> list[Open]:
    """Return what a job sees: in each of its rows, and in each run that has it."""
    rows = rows_of(file.jobs[job], Open()) or ()
    runs = (place_jobs(known, other, start) for other in known.started for start in starts_of(other))
    placed = (one for run in runs for one in run if one.file is file and one.job == job and one.runs is not False)
    of_rows = [see_row(file, job, Open(), row, number, len(rows)) for number, row in enumerate(rows)]
    return [*of_rows, *(one.contexts for one in placed)]  # as if nothing called it


def _fill(texts: object, seen: Iterable[Open]) -> set[str]:
    """Return what a text, or each of several, becomes by what a job sees."""
    return {one for contexts in seen for text in items_of(texts) if (one := fill(str(text), contexts)) is not None}


def _list_others(labels: Iterable[str]) -> list[str]:
    """Return the labels that are not of Linux, the only system with containers."""
    return sorted(one for one in labels if one.startswith(("macos-", "windows-")))


def _check_label(job: str, label: str, where: str, known: WorkflowSet) -> Iterator[DoctorFinding]:
    labels, name, today = _labels_of(known), label.lower(), known.today
    if row := labels.leaving.get(name):
        if today >= row["day"]:
            what = f"{job} runs on {one_line(label)}, which GitHub switched off on {row['day']}"
            why, weight = f"the job waits for a runner that never comes ({row['source']})", Weight.ERROR
        elif today >= row["day"] - NEAR:
            what = f"{job} runs on {one_line(label)}, which GitHub switches off on {row['day']}"
            why, weight = f"from then on the job does not start ({row['source']})", Weight.WARNING
        else:
            return
        yield DoctorFinding("runner-gone", weight, where, what, why, f"`{row['instead']}`")
    elif correction := labels.correct(label):
        what = f"{job} runs on {one_line(label)}, a label that none of GitHub's runners has"
        is_named = any(name.startswith(f"{one}-") for one in labels.current)  # as owners name their larger runners
        weight = Weight.WARNING if is_named else Weight.ERROR
        yield report("runner-unknown", where, what, correction, weight=weight)


def check_containers(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the images of jobs that cannot run where the job does, or in which no action starts."""
    for job, value in file.jobs.items():
        container = value.get("container")
        image = str(table_of(container).get("image") or "") if isinstance(container, dict) else str(container or "")
        keys = ("jobs", job, "container")
        if not image:
            continue
        seen = _see(file, job, known)
        others = [] if is_computed(image) else _list_others(_fill(value.get("runs-on"), seen))  # or none in their rows
        if others:
            yield report("container/job", file.where(keys), f"{job} runs in a container on {others[0]}")
        scripted = [step.action for step in file.steps_of(job) if step.action.startswith("actions/")]
        for one in map(one_line, sorted(_fill(image, seen))):
            yield from _check_image(job, one, file.where(keys))
            if OLD_IMAGE.search(one) and scripted and "/__e/" not in str(container):  # where a Node for it may be put
                yield report("image/old", file.where(keys), f"{job} uses {scripted[0]} in {one}")


def _check_image(job: str, image: str, where: str) -> Iterator[DoctorFinding]:
    """Yield an image of PyPA's that does not exist, or that is no longer built."""
    found, table = PYPA.fullmatch(image), tables.read("runners")["images"]
    kinds = (*table["current"], *table["gone"])
    names = {f"{kind}{arch}": kind for kind in kinds for arch in ("", *(f"_{one}" for one in table["architectures"]))}
    if found and found[1] not in names:  # only of PyPA's are all names known
        what = f"{job} runs in {image}, which PyPA does not build"
        yield report("image/unknown", where, what, nearest(found[1], names))
    elif found and names[found[1]] in table["gone"]:
        what = f"{job} runs in {image}, which PyPA has not built since {table['gone'][names[found[1]]]}"
        yield report("image/gone", where, what)


def check_systems(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the actions that run in a container, which only Linux has, in jobs for another system."""
    for step in file.steps if not file.is_action else ():
        if step.action.lower() == TRUSTED_PUBLISHER or step.uses.startswith("docker://"):
            seen = _see(file, step.job, known)
            seen = [one for one in seen if evaluate_condition(step.condition, one, is_well=None) is not False]
            for label in _list_others(_fill(file.jobs[step.job].get("runs-on"), seen)):
                what = f"{step.action} runs in a container, and {step.job} on {one_line(label)}"
                yield report("container/action", file.where((*step.keys, "uses")), what)


def check_shells(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the shells that GitHub does not know: it knows six by name, any other is a command with {0} in it."""
    for keys, shell in strings(file.value):
        is_shell = keys[-1] == "shell" and (keys[-2] == "run" or keys[-3:-2] == ("steps",)) and not is_computed(shell)
        if is_shell and shell not in SHELLS and "{0}" not in shell:
            yield report("shell", file.where(keys), f"there is no shell {one_line(shell)}", nearest(shell, SHELLS))


def check_matrices(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the matrices with more rows than GitHub runs, or with none, and what they exclude without having it."""
    for job, value in file.jobs.items():
        rows, keys = rows_of(value, Open()), ("jobs", job, "strategy", "matrix")
        matrix = table_of(table_of(value.get("strategy")).get("matrix"))
        names = matrix.keys() - {"exclude", "include"}
        for number, row in enumerate(items_of(matrix.get("exclude"))):
            for name in (name for name in table_of(row) if name not in names):
                where, what = (
                    file.where((*keys, "exclude", number, name)),
                    f"its matrix has no {one_line(name)}",
                )
                yield report("matrix-name/exclude", where, what, nearest(name, names))
        if rows is not None and (len(rows) > MAX_ROWS or not rows):  # `exclude` took them all
            what = f"the matrix of {job} has {len(rows)} rows" if rows else f"the matrix of {job} has no row"
            yield report("matrix-size", file.where(keys), what)


RUNNER_RULES = (check_labels, check_containers, check_systems, check_shells, check_matrices)
