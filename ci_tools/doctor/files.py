"""The workflow files and configs of a repository, read over GitHub's API."""

from __future__ import annotations

import base64
import functools
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci_tools.config.location import PROJECT_FILE, TABLE
from ci_tools.doctor.nodes import one_line
from ci_tools.doctor.report import RepositoryTag, Unseen
from ci_tools.doctor.workflow_files import LARGEST, read_config, read_included, read_workflow
from ci_tools.doctor.workflow_set import ACTION_FILES
from ci_tools.doctor.workflows import EXPRESSION, Workflow, qualify_calls
from ci_tools.errors import InputError, Rejected
from ci_tools.formats.toml.document import find_table
from ci_tools.model.names import CONFIG_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ci_tools.doctor.on_github.api import Answer, Api
    from ci_tools.doctor.workflow_set import Fetch
    from ci_tools.doctor.workflows import ConfigOutline, Used

FOLDER = ".github/workflows"
MAX_FILES = 100
MAX_REPOSITORIES = 40  # whose tags are read


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


def parse_workflows(texts: Mapping[str, str], repository: str) -> tuple[list[Workflow], list[tuple[str, str]]]:
    """Return the workflows in some texts, and the files that are none, with the reasons."""
    read = [_workflow(text, path, repository) for path, text in texts.items()]
    return [one for one in read if isinstance(one, Workflow)], [one for one in read if isinstance(one, tuple)]


def read_workflows(api: Api) -> tuple[list[Workflow], list[tuple[str, str]]]:
    """Return the workflows of the default branch, and the files that could not be read, with the reasons."""
    texts, unread = read_texts(api)
    workflows, others = parse_workflows(texts, api.name)
    return workflows, others + unread


def _workflow(text: str, path: str, repository: str) -> Workflow | tuple[str, str]:
    """Return a workflow; if the file is not a workflow, its path and the reason."""
    try:
        workflow = read_workflow(text, path)
    except InputError as error:
        return path, one_line(error.message)
    return qualify_calls(workflow, repository) if repository.lower().endswith("/fatwheel") else workflow


def _text_or_reason(api: Api, file: Answer, ref: str, repository: str = "") -> str | Unseen:
    try:
        return _text(api, file, ref, repository)
    except InputError as error:
        return Unseen(one_line(str(file["path"])), one_line(error.message))


def _text(api: Api, file: Answer, ref: str, repository: str = "") -> str:
    """Return the text of a file; raise InputError if it is not a file, too large, or not text."""
    path = one_line(str(file["path"]))
    if file["type"] != "file" or file["size"] > LARGEST:
        msg = f"{path} is not a file, or is larger than {LARGEST:,} bytes"
        raise InputError(msg)
    whole = file if "content" in file else api.get(f"/contents/{quote(str(file['path']))}", repository, ref=ref)
    try:
        return base64.b64decode(whole["content"])[:LARGEST].decode("utf-8-sig")
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{path} is not UTF-8 text"
        raise InputError(msg) from error


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


def fetch_workflows(
    fetch: Fetch, used: Iterable[Used], tags: Mapping[str, tuple[RepositoryTag, ...] | Unseen], own: Iterable[Workflow]
) -> Iterator[tuple[tuple[str, str, str], Workflow | Unseen | None]]:
    """Yield each Fatwheel workflow that is called, at the ref of the call."""
    by_path = {workflow.path: workflow for workflow in own}
    for call in dict.fromkeys(one[:3] for one in used if one.is_call):
        repository, path, ref = call
        if not ref:
            yield call, by_path.get(path.lstrip("/"))
        elif isinstance(tags.get(repository.lower()), Unseen):
            yield call, Unseen(f"the permissions that {path[1:]} at {ref} needs", f"a token that sees {repository}")
        else:
            yield call, _read_called(fetch(repository, path.strip("/"), ref), path, ref)


def _read_called(text: str | Unseen | None, path: str, ref: str) -> Workflow | Unseen | None:
    try:
        if isinstance(text, str):
            return read_workflow(text, path.lstrip("/"))
    except InputError as error:
        text = Unseen("", f"a readable file: {one_line(error.message)}")
    return text and text._replace(what=f"the permissions that {path[1:]} at {ref} needs")


def read_configs(fetch: Fetch, workflows: Iterable[Workflow]) -> Iterator[tuple[str, ConfigOutline | Unseen]]:
    """Yield each config that a call of Fatwheel names, if it exists, by its path."""
    jobs = (job for workflow in workflows for job in workflow.jobs if job.builds_all or job.builds_one)
    paths = dict.fromkeys(job.config for job in jobs if EXPRESSION not in job.config)
    for path in islice(paths, MAX_REPOSITORIES):
        found = read_outline(fetch, path)
        if found:
            yield path, found


def read_outline(fetch: Fetch, path: str) -> ConfigOutline | Unseen | None:
    """Return the outline of a config, with the tables in included files; None if the config does not exist."""
    try:
        text = _text_at(fetch, path)
        if text is None and path == CONFIG_FILE:
            text, path = _project_with_table(fetch), PROJECT_FILE
        if isinstance(text, str):
            return _with_included(fetch, read_config(text, path), path)
    except InputError as error:
        text = Unseen("", f"a readable file: {one_line(error.message)}")
    return text and text._replace(what=f"the targets and platforms of {path}")


def _project_with_table(fetch: Fetch) -> str | None:
    """Return the text of the pyproject.toml at the root if the config is a table in it."""
    text = _text_at(fetch, PROJECT_FILE)
    is_there = isinstance(text, str) and TABLE[-1] in text and find_table(text, PROJECT_FILE, TABLE) is not None
    return text if is_there and isinstance(text, str) else None


def _with_included(fetch: Fetch, outline: ConfigOutline, path: str) -> ConfigOutline:
    folder = path.rpartition("/")[0]
    tables = {name: _text_at(fetch, f"{folder}/{file}".lstrip("/")) for name, file in outline.included.items()}
    own = {name: read_included(table, path) for name, table in tables.items() if isinstance(table, str)}
    return outline._replace(platforms={**outline.platforms, **own})


def _text_at(fetch: Fetch, path: str) -> str | Unseen | None:
    """Return a file of the repository; None for a path that leaves it."""
    return None if ".." in path.split("/") else fetch("", path, "")
