"""The workflow files and configs of a repository, read over GitHub's API."""

from __future__ import annotations

import base64
from itertools import islice
from typing import TYPE_CHECKING
from urllib.parse import quote

from ci_tools.config.location import PROJECT_FILE, TABLE
from ci_tools.doctor.nodes import one_line
from ci_tools.doctor.report import RepositoryTag, Unseen
from ci_tools.doctor.workflow_files import LARGEST, read_config, read_included, read_workflow
from ci_tools.doctor.workflows import EXPRESSION, Workflow, qualify_calls
from ci_tools.errors import InputError, Rejected
from ci_tools.formats.toml.document import find_table
from ci_tools.model.names import CONFIG_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.doctor.api import Answer, Api
    from ci_tools.doctor.workflows import ConfigOutline, Used

FOLDER = ".github/workflows"
MAX_FILES = 100
MAX_REPOSITORIES = 40  # whose tags are read


def read_workflows(api: Api) -> tuple[list[Workflow], list[tuple[str, str]]]:
    """Return the workflows of the default branch, and the files that could not be read, with the reasons."""
    branch = api.opened.default_branch
    try:
        listed = api.get(f"/contents/{FOLDER}", ref=branch)
    except InputError:
        return [], [(FOLDER, "the workflow files need a token with `Contents: read`")]
    if listed is None:
        return [], []
    files = [file for file in listed if str(file["name"]).endswith((".yml", ".yaml"))]
    read = [_workflow(api, file, branch) for file in files[:MAX_FILES]]
    left = [(FOLDER, f"{len(files)} files, of which {MAX_FILES} were read")] * (len(files) > MAX_FILES)
    return [one for one in read if isinstance(one, Workflow)], [one for one in read if isinstance(one, tuple)] + left


def _workflow(api: Api, file: Answer, branch: str) -> Workflow | tuple[str, str]:
    """Return a workflow; if the file is not a workflow, its path and the reason."""
    try:
        workflow = read_workflow(_text(api, file, branch), str(file["path"]))
    except InputError as error:
        return one_line(str(file["path"])), one_line(error.message)
    return qualify_calls(workflow, api.name) if api.name.lower().endswith("/fatwheel") else workflow


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


def fetch_workflows(
    api: Api, used: Iterable[Used], tags: dict[str, tuple[RepositoryTag, ...] | Unseen], own: Iterable[Workflow]
) -> Iterator[tuple[tuple[str, str, str], Workflow | Unseen | None]]:
    """Yield each Fatwheel workflow that is called, at the ref of the call."""
    by_path = {workflow.path: workflow for workflow in own}
    for call in dict.fromkeys(one[:3] for one in used if one.is_call):
        repository, path, ref = call
        if not ref:
            yield call, by_path.get(path.lstrip("/"))
        elif isinstance(tags[repository.lower()], Unseen):
            yield call, Unseen(f"the permissions that {path[1:]} at {ref} needs", f"a token that sees {repository}")
        else:
            yield call, _fetch_workflow(api, repository, path, ref)


def _fetch_workflow(api: Api, repository: str, path: str, ref: str) -> Workflow | Unseen | None:
    try:
        file = api.get(f"/contents{quote(path)}", repository, ref=ref)
        if file is None:
            return None
        return read_workflow(_text(api, file, ref, repository), path.lstrip("/"))
    except (InputError, Rejected) as error:
        return Unseen(f"the permissions that {path[1:]} at {ref} needs", f"a readable file: {one_line(error.message)}")


def read_configs(api: Api, workflows: Iterable[Workflow]) -> Iterator[tuple[str, ConfigOutline | Unseen]]:
    """Yield each config that a call of Fatwheel names, if it exists on the default branch, by its path."""
    jobs = (job for workflow in workflows for job in workflow.jobs if job.builds_all or job.builds_one)
    paths = dict.fromkeys(job.config for job in jobs if EXPRESSION not in job.config)
    for path in islice(paths, MAX_REPOSITORIES):
        found = _config(api, path)
        if found:
            yield path, found


def _config(api: Api, path: str) -> ConfigOutline | Unseen | None:
    """Return the outline of a config, with the tables in included files; None if the config does not exist."""
    try:
        text = _text_at(api, path)
        if text is None and path == CONFIG_FILE:
            text, path = _project_with_table(api), PROJECT_FILE
        return None if text is None else _with_included(api, read_config(text, path), path)
    except (InputError, Rejected) as error:
        return Unseen(f"the targets and platforms of {path}", f"a readable file: {one_line(error.message)}")


def _project_with_table(api: Api) -> str | None:
    """Return the text of the pyproject.toml at the root if the config is a table in it."""
    text = _text_at(api, PROJECT_FILE) or ""
    return text if TABLE[-1] in text and find_table(text, PROJECT_FILE, TABLE) is not None else None


def _with_included(api: Api, outline: ConfigOutline, path: str) -> ConfigOutline:
    folder = path.rpartition("/")[0]
    tables = {name: _text_at(api, f"{folder}/{file}".lstrip("/")) for name, file in outline.included.items()}
    own = {name: read_included(table, path) for name, table in tables.items() if table is not None}
    return outline._replace(platforms={**outline.platforms, **own})


def _text_at(api: Api, path: str) -> str | None:
    branch = api.opened.default_branch
    file = api.get(f"/contents/{quote(path)}", ref=branch)
    return None if file is None else _text(api, file, branch)
