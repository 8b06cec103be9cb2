"""The workflows of a checkout, read without network: those that they call come from git, or from Fatwheel itself."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import ci_tools
from ci_tools.doctor.documents import one_line
from ci_tools.doctor.report import Unseen
from ci_tools.doctor.workflow_set import ACTION_FILES, FOLDER, WorkflowSet, read_set
from ci_tools.errors import InputError, Problem
from ci_tools.formats.yaml_file import text_of
from ci_tools.model.names import COMMIT
from ci_tools.source import git

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


ORIGIN = re.compile(r"github\.com[:/]([\w-]+/[\w.-]+?)(?:\.git)?/?$")
REF = re.compile(r"[A-Za-z0-9][\w./+-]*")
PLACES = (f"{FOLDER}*.yml", f"{FOLDER}*.yaml", *(f".github/actions/**/{name}" for name in ACTION_FILES), *ACTION_FILES)
SOURCE = Path(__file__).parents[2]  # the checkout that this is run from, if it is one
SHIPPED = Path(__file__).with_name("own")  # in a wheel, our workflows lie here


def read_checkout(folder: Path, clones: Path | None, environ: Mapping[str, str]) -> WorkflowSet:
    """Return the workflows of the checkout around a folder; raise InputError if it has none."""
    root = folder if (folder / FOLDER).is_dir() else git.find(folder) if folder.is_dir() else None
    if root is None or not (root / FOLDER).is_dir():
        msg = f"{folder} has no {FOLDER.rstrip('/')}, expected the checkout of a repository on GitHub, or OWNER/REPO"
        raise InputError(msg)
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
        is_own = repository.rpartition("/")[2].lower() == "fatwheel"
        if is_own and ref in _own_refs():
            file = (SHIPPED if SHIPPED.is_dir() else SOURCE) / path
            return file.read_text(encoding="utf-8") if file.is_file() else None
        for clone in self._clones(repository, is_own=is_own):
            commit = _commit(clone, ref, self.environ)
            if commit:
                return git.ask(clone, self.environ, "cat-file", "blob", f"{commit}:{path}")
        return Unseen(one_line(f"{repository}/{path}@{ref}"), f"a clone of {repository} that has the commit")

    def _clones(self, repository: str, *, is_own: bool) -> Iterator[Path]:
        if repository.lower() == self.repository.lower():
            yield self.root
        if is_own and git.find(SOURCE) == SOURCE:
            yield SOURCE
        if self.clones:
            folders = (self.clones / repository, self.clones / repository.replace("/", "+"))
            yield from (one for one in folders if one.is_dir() and git.find(one) == one.resolve())


def _commit(clone: Path, ref: str, environ: Mapping[str, str]) -> str:
    """Return the commit of a tag, branch or commit in a clone; empty if the clone does not have it."""
    names = [ref] if COMMIT.fullmatch(ref) else [f"refs/{kind}/{ref}" for kind in ("tags", "remotes/origin", "heads")]
    for name in names if REF.fullmatch(ref) else ():
        if found := git.ask(clone, environ, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return found.strip()
    return ""


def _own_refs() -> frozenset[str]:
    """Return the refs at which Fatwheel's own workflows are this package's: by its version, PEP 610, or a runner.

    A runner fetches an action into a folder with the name of its ref.
    """
    try:
        said = json.loads(metadata.distribution("fatwheel").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        said = {}
    commit = said.get("vcs_info", {}).get("commit_id", "")
    return frozenset({f"v{ci_tools.__version__}", commit, SOURCE.name} - {""})
