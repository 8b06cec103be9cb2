"""The workflow files of a repository, read over GitHub's API, or of a checkout, without network.

Those that they call are read as well: for a checkout from git, or from Fatwheel itself.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import ci_tools
from ci_tools.doctor.documents import WorkflowDocument, one_line
from ci_tools.doctor.report import RepositoryTag, Unseen
from ci_tools.doctor.workflow_set import ACTION_FILES, FOLDER, Fetch, WorkflowSet, read_set
from ci_tools.doctor.workflows import Used, Workflow, outline, outline_all
from ci_tools.errors import InputError, Problem, Rejected
from ci_tools.formats.yaml_file import text_of
from ci_tools.model.names import COMMIT, CONFIG_FILE
from ci_tools.source import git

if TYPE_CHECKING:
    from ci_tools.doctor.on_github import Answer, Api

WORKFLOWS = FOLDER.rstrip("/")
MAX_FILES = 100  # each is a request, of 5,000 an hour
MAX_REPOSITORIES = 40  # whose tags are read
LARGEST = 256_000  # bytes of a file; the longest real files have a fifth of that
ORIGIN = re.compile(r"github\.com[:/]([\w-]+/[\w.-]+?)(?:\.git)?/?$")  # by https or ssh
REF = re.compile(r"[A-Za-z0-9][\w./+-]*")  # never an option of git, as `--help` is
PLACES = (f"{FOLDER}*.yml", f"{FOLDER}*.yaml", *(f".github/actions/**/{name}" for name in ACTION_FILES), *ACTION_FILES)
SOURCE = Path(__file__).parents[2]  # the checkout that this is run from, if it is one
SHIPPED = Path(__file__).with_name("own")  # in a wheel, our workflows lie here


def read_texts(api: Api) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the workflow files of the default branch by path, and those that could not be read, with the reasons."""
    branch = api.opened.default_branch
    try:  # 404 for a repository without workflows, 403 without the permission
        listed = api.get(f"/contents/{WORKFLOWS}", ref=branch)
    except InputError:
        return {}, [(WORKFLOWS, "the workflow files need a token with `Contents: read`")]
    files = [file for file in listed or () if str(file["name"]).endswith((".yml", ".yaml"))]
    texts: dict[str, str] = {}
    unread = [(WORKFLOWS, f"{len(files)} files, of which {MAX_FILES} were read")] * (len(files) > MAX_FILES)
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
        raise InputError(f"{path} is not UTF-8 text") from error  # or there is none


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


def read_checkout(folder: Path, clones: Path | None, environ: Mapping[str, str]) -> WorkflowSet:
    """Return the workflows of the checkout around a folder; raise InputError if it has none."""
    root = folder if (folder / FOLDER).is_dir() else git.find(folder) if folder.is_dir() else None
    if root is None or not (root / FOLDER).is_dir():
        msg = f"{folder} has no {FOLDER.rstrip('/')}, expected the checkout of a repository on GitHub, or OWNER/REPO"
        has_config = any((one / CONFIG_FILE).is_file() for one in (folder, root or folder))
        first = "" if has_config else f", once `fatwheel init` has written a {CONFIG_FILE}"
        raise InputError(msg, hint=f"`fatwheel init --workflow` writes one{first}" if folder.is_dir() else "")
    if clones and not clones.is_dir():
        raise InputError(f"--clones {clones} is not a folder, expected one with clones such as OWNER/NAME")
    texts: dict[str, str] = {}
    broken: list[Problem] = []
    for path in (path for pattern in PLACES for path in sorted(root.glob(pattern))):
        name = path.relative_to(root).as_posix()
        try:
            texts[name] = text_of(path, one_line(name), "a workflow")
        except InputError as error:
            broken.append(Problem(f"{one_line(name)}:1", error.message))
    found = ORIGIN.search(git.origin(root, environ) or "")
    library = LocalLibrary(root, found[1] if found else "", clones, environ)
    known = read_set(texts, library.fetch, library.repository, tuple(broken))
    return replace(known, names=tuple(git.listed(root, environ) or ()))


class LocalLibrary(NamedTuple):
    """Where files of other repositories are looked for."""

    root: Path  # the checkout
    repository: str
    clones: Path | None  # a folder with clones, as OWNER/NAME or OWNER+NAME
    environ: Mapping[str, str]

    def fetch(self, repository: str, path: str, ref: str) -> str | Unseen | None:
        """Return a file of a repository at a ref; Unseen if that commit is not on this machine."""
        if not repository:
            file = self.root / path
            return text_of(file, one_line(path), "a workflow") if file.is_file() else None
        is_own = repository.rpartition("/")[2].lower() == "fatwheel"  # a fork keeps the name
        if is_own and ref in _own_refs():
            file = (SHIPPED if SHIPPED.is_dir() else SOURCE) / path  # an installed wheel, or a checkout
            return file.read_text(encoding="utf-8") if file.is_file() else None
        for clone in self._clones(repository, is_own=is_own):
            commit = _commit(clone, ref, self.environ)
            if commit:
                return git.ask(clone, self.environ, "cat-file", "blob", f"{commit}:{path}")
        needs = f"`--clones FOLDER`, with a clone of {repository} in it, as {repository}, that has the commit"
        return Unseen(one_line(f"{repository}/{path}@{ref}"), needs)

    def _clones(self, repository: str, *, is_own: bool) -> Iterator[Path]:
        if repository.lower() == self.repository.lower():
            yield self.root
        folders = list(dict.fromkeys([SOURCE, _installed_from()])) if is_own else []
        if self.clones:
            folders += [self.clones / repository, self.clones / repository.replace("/", "+")]
        yield from (one for one in folders if one.is_dir() and git.find(one) == one.resolve())


def _commit(clone: Path, ref: str, environ: Mapping[str, str]) -> str:
    """Return the commit of a tag, branch or commit in a clone; empty if the clone does not have it."""
    names = [ref] if COMMIT.fullmatch(ref) else [f"refs/{kind}/{ref}" for kind in ("tags", "remotes/origin", "heads")]
    for name in names if REF.fullmatch(ref) else ():  # anything else is not handed to git
        if found := git.ask(clone, environ, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return found.strip()
    return ""


def _own_refs() -> frozenset[str]:
    """Return the refs at which Fatwheel's own workflows are this package's: by its version, PEP 610, or a runner.

    A runner fetches an action into a folder with the name of its ref.
    """
    commit = _read_direct_url().get("vcs_info", {}).get("commit_id", "")
    return frozenset({f"v{ci_tools.__version__}", commit, SOURCE.name} - {""})


def _installed_from() -> Path:
    """Return the folder that this package was installed from; if there is none, its own checkout."""
    address = urlsplit(_read_direct_url().get("url", ""))
    return Path(unquote(address.path)) if address.scheme == "file" else SOURCE


def _read_direct_url() -> dict[str, Any]:
    """Return where this package was installed from (PEP 610); {} if an index had it."""
    try:
        return dict(json.loads(metadata.distribution("fatwheel").read_text("direct_url.json") or "{}"))
    except (metadata.PackageNotFoundError, ValueError):  # run from a checkout
        return {}
