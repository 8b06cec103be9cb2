"""All workflows and actions of one repository, with those of others that they call, each read once."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ci_tools.doctor.documents import NAME, Keys, WorkflowDocument, one_line
from ci_tools.doctor.report import Unseen
from ci_tools.errors import InputError, Problem, RejectedInput

# Returns the text of a file by repository (empty: the one that is looked at), path and ref; None if it does not exist.
Fetch: TypeAlias = "Callable[[str, str, str], str | Unseen | None]"
FOLDER = ".github/workflows/"
ACTION_FILES = ("action.yml", "action.yaml")
USES = re.compile(r"([\w-]+/[\w.-]+)((?:/[^@\s]*)?)@(\S+)")  # OWNER/NAME, a path in it, and a ref
MAX_JOBS = 500  # of a file
DEEPEST = 10  # https://docs.github.com/en/actions/reference/workflows-and-actions/reusing-workflow-configurations


@dataclass(frozen=True)
class WorkflowCall:
    """A job that calls a workflow: where, and what it calls."""

    file: WorkflowDocument
    job: str
    uses: str
    called: WorkflowDocument | Unseen | None

    @property
    def keys(self) -> Keys:
        """The place of the job."""
        return ("jobs", self.job)


@dataclass(frozen=True)
class WorkflowSet:
    """The workflow and action files of a repository, and a way to those that they call."""

    files: Mapping[str, WorkflowDocument]  # by path
    broken: tuple[Problem, ...]  # of files that cannot be read
    fetch: Fetch = field(repr=False)
    repository: str = ""  # OWNER/NAME; empty if it is not known
    names: tuple[str, ...] = ()  # the files of the repository, for the nearest one; empty if they are not known
    today: dt.date = field(default_factory=lambda: dt.datetime.now(dt.timezone.utc).date())
    placed: dict[tuple[str, object], list[Any]] = field(default_factory=dict, repr=False)  # the jobs of each run
    read: dict[tuple[str, str, str], WorkflowDocument | Unseen | None] = field(default_factory=dict, repr=False)

    @property
    def workflows(self) -> list[WorkflowDocument]:
        """The workflows of the repository."""
        return [file for file in self.files.values() if not file.is_action]

    @property
    def started(self) -> list[WorkflowDocument]:
        """The workflows that an event starts, not only a call."""
        return [file for file in self.workflows if set(file.triggers) - {"workflow_call"}]

    def called(self, file: WorkflowDocument, uses: str, *, is_job: bool) -> WorkflowDocument | Unseen | None:
        """Return the workflow or action that `uses:` names in a file; Unseen if it is not at hand, None if missing.

        `./` is the called file's own repository for a job, but for a step the checkout, which is the caller's; `$/` is
        the called file's own for both.
        """
        found = USES.fullmatch(uses)
        if found:
            return self.read_file(found[1], found[2].strip("/"), found[3], is_job=is_job)
        if not uses.startswith(("./", "$/")):
            return Unseen(one_line(uses), "an image, or a name that GitHub knows")
        is_own = is_job or uses.startswith("$/")
        place = (file.repository, file.ref) if is_own else ("", "")
        return self.read_file(place[0], uses[2:].strip("/"), place[1], is_job=is_job)

    def read_file(self, repository: str, path: str, ref: str, *, is_job: bool) -> WorkflowDocument | Unseen | None:
        """Return the workflow at a path, or the action in a folder; no repository is this one."""
        key = (repository.lower(), path, ref)
        if key not in self.read:
            names = [path] if is_job else [f"{path}/{name}".lstrip("/") for name in ACTION_FILES]
            found = (self._fetch(repository, name, ref) for name in names)
            self.read[key] = next((one for one in found if one is not None), None)
        return self.read[key]

    def _fetch(self, repository: str, path: str, ref: str) -> WorkflowDocument | Unseen | None:
        if not repository and path in self.files:
            return self.files[path]
        text = self.fetch(repository, path, ref) if ".." not in path.split("/") else None
        try:
            return text if not isinstance(text, str) else read_workflow(text, path, repository, ref)
        except InputError as error:
            return Unseen(f"{repository}/{path}@{ref}".strip("/@"), f"a readable file: {one_line(error.message)}")

    def calls(self, file: WorkflowDocument, depth: int = 0) -> Iterator[WorkflowCall]:
        """Yield each job of a workflow that calls another, and those of the called ones, however deep."""
        for job, value in file.jobs.items():
            if not isinstance(uses := value.get("uses"), str):
                continue
            called = self.called(file, uses, is_job=True)
            yield WorkflowCall(file, job, uses, called)
            if isinstance(called, WorkflowDocument) and depth < DEEPEST:  # a circle ends as well
                yield from self.calls(called, depth + 1)


def is_fatwheel(known: WorkflowSet, file: WorkflowDocument, uses: str) -> bool:
    """Whether a call names Fatwheel's own repository."""
    own = file.repository or known.repository
    name = own if uses.startswith(("./", "$/")) else "/".join(uses.split("/")[:2])
    return name.rpartition("/")[2].lower() == "fatwheel"  # a fork keeps the name


def read_set(
    texts: Mapping[str, str], fetch: Fetch, repository: str = "", broken: tuple[Problem, ...] = ()
) -> WorkflowSet:
    """Return the workflows and actions in some texts, by their paths; a file that is not YAML is named as broken."""
    read = {path: _read_text(text, path) for path, text in texts.items()}
    files = {path: file for path, file in read.items() if isinstance(file, WorkflowDocument)}
    problems = [*broken, *(one for found in read.values() if isinstance(found, tuple) for one in found)]
    return WorkflowSet(files, tuple(problems), fetch, repository)


def _read_text(text: str, path: str) -> WorkflowDocument | tuple[Problem, ...]:
    try:
        return read_workflow(text, path)
    except RejectedInput as error:
        return error.problems
    except InputError as error:
        return (Problem(f"{path}:1", error.message),)


def read_workflow(text: str, path: str, repository: str = "", ref: str = "") -> WorkflowDocument:
    """Return the workflow or action in a file's text; raise InputError with each place that GitHub refuses."""
    file = WorkflowDocument.from_text(text, path, repository, ref)
    flaws = list(_find_flaws(file)) if path.startswith(FOLDER) else []  # an action has no jobs
    if flaws:
        raise RejectedInput(Problem(f"{one_line(path)}:{line}", what) for line, what in flaws)
    return file


def _find_flaws(file: WorkflowDocument) -> Iterator[tuple[int, str]]:
    """Yield what makes GitHub refuse a file as a workflow, each with its line."""
    if not file.jobs:
        yield 1, "this is not a workflow: it has no jobs"
    if len(file.jobs) > MAX_JOBS:  # each is asked by every rule
        yield file.line(("jobs",)), f"it has {len(file.jobs)} jobs, expected at most {MAX_JOBS}"
    for job in file.jobs:
        if not NAME.fullmatch(job):
            yield file.line(("jobs", job)), f'"{one_line(job)}" is not a valid name for a job'
