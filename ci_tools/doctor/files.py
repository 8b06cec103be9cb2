"""The workflow files of a repository, read over GitHub's API, and those that they call."""

from __future__ import annotations

import base64
import functools
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci_tools.doctor.documents import WorkflowDocument, one_line
from ci_tools.doctor.report import RepositoryTag, Unseen
from ci_tools.doctor.workflow_set import ACTION_FILES, Fetch, WorkflowSet, read_set
from ci_tools.doctor.workflows import Used, Workflow, outline, outline_all
from ci_tools.errors import InputError, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_tools.doctor.on_github.api import Answer, Api

FOLDER = ".github/workflows"
MAX_FILES = 100
MAX_REPOSITORIES = 40  # whose tags are read
LARGEST = 256_000  # bytes of a file; the longest real files have a fifth of that


def read_texts(api: Api) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the workflow files of the default branch by path, and those that could not be read, with the reasons."""
    branch = api.opened.default_branch
    try:
        listed = api.get(f"/contents/{FOLDER}", ref=branch)
    except InputError:
        return {}, [(FOLDER, "the workflow files need a token with `Contents: read`")]
    files = [file for file in listed or () if str(file["name"]).endswith((".yml", ".yaml"))]
    texts: dict[str, str] = {}
    unread = [(FOLDER, f"{len(files)} files, of which {MAX_FILES} were read")] * (len(files) > MAX_FILES)
    for file in files[:MAX_FILES]:
        path = one_line(str(file["path"]))
        text = _text_or_reason(api, file, branch)
        if isinstance(text, str):
            texts[path] = text
        else:
            unread.append((path, text.needs))
    return texts, unread


def read_workflows(api: Api) -> tuple[tuple[Workflow, ...], list[tuple[str, str]]]:
    """Return the workflows of the default branch, and the files that could not be read, with the reasons."""
    texts, unread = read_texts(api)
    known = read_set(texts, make_fetch(api), api.name)
    return outline_all(known.workflows, api.name), [*list_unread(known), *unread]


def list_unread(known: WorkflowSet) -> list[tuple[str, str]]:
    """Return the files of a repository that are no workflows, each with the first reason."""
    reasons = {problem.where.split(":")[0]: one_line(str(problem)) for problem in reversed(known.broken)}
    return [*reversed(reasons.items())]


def _text_or_reason(api: Api, file: Answer, ref: str, repository: str = "") -> str | Unseen:
    try:
        return _text(api, file, ref, repository)
    except InputError as error:
        return Unseen(one_line(str(file["path"])), one_line(error.message))


def _text(api: Api, file: Answer, ref: str, repository: str = "") -> str:
    """Return the text of a file; raise InputError if it is not a file, too large, or not text."""
    path = one_line(str(file["path"]))
    if file["type"] != "file" or file["size"] > LARGEST:
        raise InputError(f"{path} is not a file, or is larger than {LARGEST:,} bytes")
    whole = file if "content" in file else api.get(f"/contents/{quote(str(file['path']))}", repository, ref=ref)
    try:
        return base64.b64decode(whole["content"])[:LARGEST].decode("utf-8-sig")
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not UTF-8 text") from error


def make_fetch(api: Api) -> Fetch:
    """Return what reads files of this and other repositories over the API, each once, but no actions of others."""

    @functools.cache
    def fetch(repository: str, path: str, ref: str) -> str | Unseen | None:
        what = f"{repository}/{path}@{ref}".strip("/@")
        if repository and path.rpartition("/")[2] in ACTION_FILES:
            return Unseen(what, "a look at its action.yml")
        try:
            file = api.get(f"/contents/{quote(path)}", repository, ref=ref or api.opened.default_branch)
            if isinstance(file, dict):
                return _text_or_reason(api, file, ref, repository)
            is_seen = not repository or api.get("/tags", repository, per_page=1) is not None
        except (InputError, Rejected) as error:
            return Unseen(what, f"a readable file: {one_line(error.message)}")
        return None if is_seen else Unseen(what, f"a token that sees {repository}")

    return fetch


def list_called(
    known: WorkflowSet, workflows: Iterable[Workflow], tags: Mapping[str, tuple[RepositoryTag, ...] | Unseen]
) -> Iterator[tuple[tuple[str, str, str], Workflow | Unseen | None]]:
    """Yield each Fatwheel workflow that is called, at the ref of the call."""
    for call in dict.fromkeys(one[:3] for one in list_uses(workflows) if one.is_call):
        repository, path, ref = call
        found: WorkflowDocument | Unseen | None = Unseen("", f"a token that sees {repository}")
        if not isinstance(tags.get(repository.lower()), Unseen):
            found = known.read_file(repository if ref else "", path.strip("/"), ref, is_job=True)
        if isinstance(found, Unseen):
            yield call, found._replace(what=f"the permissions that {path[1:]} at {ref} needs")
        else:
            yield call, outline(found) if found else None


def list_uses(workflows: Iterable[Workflow]) -> list[Used]:
    """Return everything that the jobs of the workflows which call Fatwheel use."""
    return [one for workflow in workflows if workflow.is_caller for job in workflow.jobs for one in job.uses]
