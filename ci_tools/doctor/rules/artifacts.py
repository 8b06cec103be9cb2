"""Rules for the artifacts of a run: their names over all jobs, rows of matrices and called workflows.

Since version 4 of the action a name can be uploaded once: https://github.com/actions/upload-artifact#breaking-changes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from ci_tools.doctor.documents import WorkflowDocument, WorkflowStep, split_expressions
from ci_tools.doctor.expressions import Open, fill
from ci_tools.doctor.placed_jobs import PlacedJob, list_steps, starts_of
from ci_tools.doctor.report import DoctorFinding, Unseen, Weight, report
from ci_tools.doctor.rules.references import ACTIONS
from ci_tools.doctor.walk import place_jobs
from ci_tools.doctor.workflow_set import WorkflowSet
from ci_tools.errors import close_names, nearest

UPLOAD, MERGE, DOWNLOAD = "actions/upload-artifact", "actions/upload-artifact/merge", "actions/download-artifact"
DEFAULT_NAMES = {UPLOAD: "artifact", MERGE: "merged-artifacts"}
# Actions that upload what their inputs do not name.
UPLOADERS = {"hynek/build-and-inspect-python-package": "Packages", "actions/upload-pages-artifact": "github-pages"}
AFTER_FAILURE = re.compile(r"\b(?:always|cancelled|failure)\(\)")
BY_ROW = "${{ strategy.job-index }}"
# github.com/actions/toolkit: packages/artifact/src/internal/upload/path-and-artifact-name-validation.ts
REFUSED = re.compile(r'["<>|:?\\/\r\n]')
REST = "*"  # the part of a name that only a run knows


class Transfer(NamedTuple):
    """A step that uploads or downloads an artifact, in a job of a run."""

    placed: PlacedJob
    file: WorkflowDocument
    step: WorkflowStep
    name: str  # with `*` for what only a run knows
    overwrites: bool
    is_sure: bool  # whether it certainly runs in a run of this kind

    @property
    def where(self) -> str:
        """The place of the step, or of the job that calls the other repository which has it."""
        if self.file.repository:
            file, job = self.placed.path[0]
            return file.where(("jobs", job))
        return self.file.where((*self.step.keys, "with", "name"))


def check_artifacts(file: WorkflowDocument, known: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the artifacts of a workflow's runs that collide, that nobody uploads, or that come too late."""
    for start in starts_of(file):
        jobs = place_jobs(known, file, start)
        uploads = [one for placed in jobs for one in _uploads(known, placed)]
        yield from _check_names(uploads)  # also of steps that may not run
        calls = {placed.id for placed in jobs if placed.is_call and placed.runs}
        yield from _check_collisions(uploads, calls)
        is_whole = all(_is_whole(known, placed) for placed in jobs)
        for placed in (placed for placed in jobs if placed.runs is not False):
            for transfer in _downloads(known, placed):
                yield from _check_download(transfer, uploads, is_whole=is_whole)


def _name(contexts: Open, text: object) -> str:
    """Return a name with `*` for each expression that only a run knows."""
    parts = enumerate(split_expressions(str(text)))
    filled = [fill(f"${{{{{part}}}}}", contexts) if number % 2 else part for number, part in parts]
    return "".join(REST if part is None else part for part in filled)


def _uploads(known: WorkflowSet, placed: PlacedJob) -> Iterator[Transfer]:
    for file, step, contexts, runs in list_steps(known, placed):  # also of composite actions
        name = step.given.get("name", DEFAULT_NAMES.get(step.action)) if step.action in DEFAULT_NAMES else None
        if str(step.given.get("archive")).lower() == "false":  # then the artifact has the name of its one file
            name = str(step.given.get("path")).rpartition("/")[2]
        name = UPLOADERS.get(step.action) if name is None else name
        if name is not None and runs is not False:
            overwrites = str(step.given.get("overwrite")).lower() == "true"
            is_sure = bool(runs and placed.runs)
            yield Transfer(placed, file, step, _name(contexts, name), overwrites, is_sure)


def _downloads(known: WorkflowSet, placed: PlacedJob) -> Iterator[Transfer]:
    for file, step, contexts, runs in list_steps(known, placed):
        if step.action != DOWNLOAD or runs is False:
            continue
        wanted = step.given.get("name") or step.given.get("pattern")
        run = _name(contexts, step.given.get("run-id", "1"))  # 1 is this run, see `placed_jobs.RUN`
        if wanted and run == "1" and not {"repository", "artifact-ids"} & set(step.given):
            yield Transfer(placed, file, step, _name(contexts, wanted), overwrites=False, is_sure=bool(runs))


def _check_names(uploads: Iterable[Transfer]) -> Iterator[DoctorFinding]:
    for upload in uploads:
        if refused := REFUSED.search(upload.name.replace(REST, "")):  # which is not part of the name
            how = f"a name without {refused[0]!r}"
            yield report("artifact-name", upload.where, f'{upload.placed.name} uploads "{upload.name}"', how)


def _check_collisions(uploads: Iterable[Transfer], calls: Collection[str]) -> Iterator[DoctorFinding]:
    """Yield two uploads of one name that both run: certainly, or as the same step in two calls that certainly run."""
    first: dict[str, Transfer] = {}
    said: set[str] = set()
    for upload in uploads:
        is_called = upload.placed.runs is not False and " / ".join(upload.placed.calls) in calls
        is_open = REST in upload.name or (upload.placed.row is None and "matrix" in upload.name)
        if is_open or not (upload.is_sure or is_called):
            continue
        other = first.setdefault(upload.name.lower(), upload)
        if other is upload or (other.step is upload.step and other.placed.row is None) or upload.where in said:
            continue
        if upload.overwrites and upload.placed.comes_after(other.placed):  # two at once: the last one wins, at random
            continue  # it replaces what the first has left, as it says
        is_sure = upload.is_sure and other.is_sure
        if not is_sure and (other.step is not upload.step or other.placed.calls == upload.placed.calls):
            continue
        said.add(upload.where)
        what = f'{upload.placed.name} uploads "{upload.name}", and so does {other.placed.name}'
        how = "another name in one of them"
        if other.step is upload.step:
            is_row = other.placed.path == upload.placed.path
            how = f"a name for each row: `name: …-{BY_ROW}`" if is_row else "another prefix in one of the two calls"
        weight = Weight.ERROR if is_sure and not AFTER_FAILURE.search(upload.step.condition) else Weight.WARNING
        kind = "overwritten" if upload.overwrites else "refused"
        yield report(f"artifact-collision/{kind}", upload.where, what, how, weight=weight)


def _check_download(transfer: Transfer, uploads: list[Transfer], *, is_whole: bool) -> Iterator[DoctorFinding]:
    found = [one for one in uploads if _may_be(one.name, transfer.name)]
    names = sorted({one.name for one in uploads})
    if not found and (is_whole or close_names(transfer.name.replace(REST, ""), names, cutoff=0.8)):
        what = f'{transfer.placed.name} downloads "{transfer.name}", which no job of the run uploads'
        how = nearest(transfer.name, names) if names else "a job that uploads it, or `run-id:` of the run that did"
        yield report("artifact-missing", transfer.where, what, how)
    is_ready = any(one.placed.path == transfer.placed.path or transfer.placed.comes_after(one.placed) for one in found)
    if found and not is_ready:
        other = found[0].placed.path[0][1]
        what = f'{transfer.placed.name} downloads "{transfer.name}", but does not wait for {found[0].placed.name}'
        yield report("artifact-early", transfer.where, what, f"in that job: `needs: {other}`")


def _may_be(uploaded: str, wanted: str) -> bool:
    """Whether the name of an upload may be what a download asks for; either has `*` for what is not known."""
    return (
        fnmatchcase(uploaded, wanted)
        or fnmatchcase(wanted, uploaded)
        or (REST in uploaded and REST in wanted and _meet(uploaded, wanted))
    )


def _meet(left: str, right: str) -> bool:
    """Whether some name fits two patterns: their fixed starts and ends must not contradict each other."""
    starts = left.partition(REST)[0], right.partition(REST)[0]  # anything may be between two stars
    ends = left.rpartition(REST)[2], right.rpartition(REST)[2]
    return (starts[0].startswith(starts[1]) or starts[1].startswith(starts[0])) and (
        ends[0].endswith(ends[1]) or ends[1].endswith(ends[0])
    )


def _is_whole(known: WorkflowSet, placed: PlacedJob) -> bool:
    """Whether every step of a job is known not to upload anything else."""
    uses = placed.value.get("uses")
    if uses is not None:
        return not isinstance(known.called(placed.file, str(uses), is_job=True), Unseen)
    return all(
        step.action in ACTIONS or step.uses.startswith(("./", "$/", "actions/")) or not step.uses
        for _, step, *_ in list_steps(known, placed)
    )


def check_repeated_uploads(file: WorkflowDocument, _: WorkflowSet) -> Iterator[DoctorFinding]:
    """Yield the uploads that a second attempt of the job would repeat: GitHub refuses a name that is there (409)."""
    for step in file.steps if not file.is_action else ():
        is_bare = str(step.given.get("overwrite")).lower() != "true" and "attempt" not in str(step.given.get("name"))
        if step.action == UPLOAD and is_bare and _can_fail_after(file, step):
            what = f"a second attempt of {step.job} may find its artifact there"
            yield report("overwrite", file.where(step.keys), what)


def _can_fail_after(file: WorkflowDocument, step: WorkflowStep) -> bool:
    """Whether a job can fail although the step ran: it runs after a failure, or a step behind it may fail."""
    behind = [one for one in file.steps_of(step.job) if int(one.keys[-1]) > int(step.keys[-1])]
    return bool(AFTER_FAILURE.search(step.condition)) or any(not AFTER_FAILURE.search(one.condition) for one in behind)


ARTIFACT_RULES = (check_artifacts, check_repeated_uploads)
