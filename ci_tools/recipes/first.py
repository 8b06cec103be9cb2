"""Writes a first recipe from what a repository or an sdist shows, and says what a person has to decide."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import canonicalize_name, parse_sdist_filename

from ci_tools import catalog as catalogs
from ci_tools.config import loader
from ci_tools.config.project import ARCHS, find_abi, list_pythons, project_of
from ci_tools.errors import InputError
from ci_tools.evidence import git, source
from ci_tools.model.evidence import Binding
from ci_tools.model.pep440 import read_version
from ci_tools.model.request import GitSource
from ci_tools.recipes.releases import name_release, write_config
from ci_tools.recipes.shelf import CALLERS
from ci_tools.recipes.upstream import FIELD, cudas_of, list_sdists

if TYPE_CHECKING:
    from packaging.version import Version

    from ci_tools.config.project import Project
    from ci_tools.evidence.source import Tree
    from ci_tools.machine.context import Outside

__all__ = ["Written", "write_first"]

TAG = re.compile(r"(?P<before>v|release-|)(?P<version>\d[\w.+!-]*)")
ADDRESS = re.compile(r"[\w+.-]+://|[^/]+@[^/]+:|[./~]")
MOST_PYTHONS = 3  # of a first recipe: the newest


class Written(NamedTuple):
    """The new config, and what a person still has to decide."""

    config: Path
    decisions: tuple[str, ...]


def write_first(address: str, folder: Path | None, outside: Outside) -> Written:
    """Write a recipe for the newest version of a git repository, or of a project on the package index.

    Raises InputError if the folder exists, or if the source has no version to start from or no project to build.
    """
    where, version = _newest_of_git(address, outside) if ADDRESS.match(address) else _newest_sdist(address, outside)
    root: dict[str, Any] = {"package": "unknown", "version": str(version), "source": where}
    tree = _open(root, outside)
    project = project_of(tree, canonicalize_name(address.rstrip("/").rpartition("/")[2].removesuffix(".git")))
    folder = folder or CALLERS / canonicalize_name(project.name)
    if folder.exists():
        msg = f"{folder} exists already, expected a new folder for the recipe"
        raise InputError(msg)
    config = write_config({**root, **_ask(tree, project)}, tree.root, folder)
    try:
        name_release(project.name, config)
    except InputError:
        shutil.rmtree(folder)
        raise
    return Written(config, tuple(_decisions(tree, config)))


def _newest_of_git(url: str, outside: Outside) -> tuple[dict[str, Any], Version]:
    """Return the source with the newest tag of a final version, and that version."""
    asked = GitSource(url=url, ref="")
    found = {}
    for tag in git.remote_tags(asked, git.address(asked, Path()), outside.environ):
        named = TAG.fullmatch(tag)
        version = read_version(named["version"]) if named else None
        if named and version and not version.is_prerelease and str(version) == named["version"]:
            found[version] = f"{named['before']}{FIELD}"
    if not found:
        msg = f"{url} has no tag of a final version such as v1.2.0, so there is none to start from"
        raise InputError(msg, hint="write the recipe by hand, with a commit as its `ref`")
    newest = max(found)
    return {"git": url, "ref": found[newest]}, newest


def _newest_sdist(name: str, outside: Outside) -> tuple[dict[str, Any], Version]:
    """Return the source with the newest final sdist of a project, and its version."""
    found = {}
    for file in list_sdists(name, outside):
        version, digest = parse_sdist_filename(file.filename)[1], (file.digests or {}).get("sha256")
        if digest and not version.is_prerelease and not file.is_yanked:
            found[version] = digest
    if not found:
        msg = f"the package index has no sdist of {name}"
        raise InputError(msg, hint="name the address of its git repository")
    newest = max(found)
    return {"sdist": {"name": name, "version": str(newest), "sha256": found[newest]}}, newest


def _open(root: dict[str, Any], outside: Outside) -> Tree:
    """Return the source as a tree, by a config that asks for no more than that."""
    with tempfile.TemporaryDirectory() as scratch:
        asked = {**root, "python": ["3.13"], "platforms": {"linux-cpu": None}}
        config = write_config(asked, Path(scratch), Path(scratch) / "first")
        return source.open_tree(loader.load(config, catalogs.load()), config.parent, outside)


def _ask(tree: Tree, project: Project) -> dict[str, Any]:
    """Return the rest of the config: what to build for whom, and the names of its releases."""
    catalog = catalogs.load()
    newest = max(torch for torch in catalog.torch if cudas_of(torch, catalog))
    uses_torch = find_abi(tree, project).kind is not Binding.NONE
    has_cuda = any(name.endswith((".cu", ".cuh")) for name in tree.files)
    cuda = str(max(cudas_of(newest, catalog)))
    platforms = {"linux-cuda": {"cuda": [cuda], "archs": list(ARCHS)}} if has_cuda else {"linux-cpu": None}
    named = f"py{{python}}{'-torch{torch}' * uses_torch}{'-cu{cuda}' * has_cuda}"
    title = f"for Python {{python_title}}{' + PyTorch {torch}' * uses_torch}{' + CUDA {cuda_version}' * has_cuda}"
    local = f"{'cu{cuda}{archs}' * has_cuda}{'torch{torch}' * uses_torch}"
    return {
        "package": project.name,
        "python": list_pythons(project, catalog)[-MOST_PYTHONS:],
        **({"torch": [str(newest)]} if uses_torch else {}),
        "platforms": platforms,
        "build": {"sdist": False},
        "release": {
            "tag": f"{{package}}-v{{version}}-{named}",
            "title": f"{{display}} v{{version}} Wheel {title}",
            "local": local,
            "untagged": True,
        },
    }


def _decisions(tree: Tree, config: Path) -> list[str]:
    """Return what no source shows."""
    return [
        f"`python` and `torch` in {config}: for whom the wheels are",
        *([f"`archs` in {config}: which GPUs they are for"] if "archs" in config.read_text(encoding="utf-8") else []),
        "`release: display`, the name as people write it",
        "`validate: imports`, the modules that must import",
        f"whether its licence lets you publish wheels: {_licence(tree)}",
    ]


def _licence(tree: Tree) -> str:
    found = [name for name in tree.files if re.match(r"(?i)(licen[cs]e|copying)[^/]*$", name)]
    return ", ".join(found) or "the source has no licence file"
