"""Writes a first recipe from what a repository or an sdist shows, and says what a person has to decide."""

from __future__ import annotations

import posixpath
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from packaging.utils import canonicalize_name, parse_sdist_filename

from ci_tools import catalog as catalogs
from ci_tools.config import loader
from ci_tools.config.project import ARCHS, find_abi, list_pythons, project_of, uses_torch
from ci_tools.errors import InputError
from ci_tools.evidence import git, source
from ci_tools.evidence.includes import COMPILED
from ci_tools.formats.toml.text import parse_toml
from ci_tools.model.evidence import Binding
from ci_tools.model.pep440 import name_of_required, read_version
from ci_tools.model.request import GitSource
from ci_tools.recipes.choice import Choice
from ci_tools.recipes.releases import releases_of_all, write_config
from ci_tools.recipes.shelf import CALLERS, Recipe
from ci_tools.recipes.upstream import FIELD, cudas_of, list_sdists

if TYPE_CHECKING:
    from packaging.version import Version

    from ci_tools.config.project import Project
    from ci_tools.evidence.source import Tree
    from ci_tools.machine.context import Outside

__all__ = ["Written", "write_first"]

TAG = re.compile(r"(?P<before>v|release-|)(?P<version>\d[\w.+!-]*)")
NAME = re.compile(r"""^\s*name\s*=\s*["']([A-Za-z0-9._-]+)["']""", re.MULTILINE)
ADDRESS = re.compile(r"[\w+.-]+://|[^/]+@[^/]+:|[./~]")
MOST_PYTHONS = 3  # of a first recipe: the newest that the newest torch ships for


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
    project = project_of(tree, _guess_name(tree, address))
    folder = folder or CALLERS / canonicalize_name(project.name)
    if folder.exists():
        msg = f"{folder} exists already, expected a new folder for the recipe"
        raise InputError(msg)
    config = write_config({**root, **_ask(tree, project)}, tree.root, folder)
    try:
        releases_of_all([Recipe(folder.name, folder, is_ours=False)], Choice(), outside)
    except InputError:
        shutil.rmtree(folder)
        raise
    return Written(config, tuple(_decisions(tree, project, config)))


def _newest_of_git(url: str, outside: Outside) -> tuple[dict[str, Any], Version]:
    """Return the source with the newest tag of a final version, and that version."""
    local = Path(url).expanduser()
    url = str(local.resolve()) if local.is_dir() else url  # a recipe's copies lie in other folders
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


def _guess_name(tree: Tree, address: str) -> str:
    """Return the name that setup.py passes to setup(), or else that of the repository."""
    found = {match[1] for match in NAME.finditer(tree.text("setup.py"))}
    return found.pop() if len(found) == 1 else canonicalize_name(address.rstrip("/").rpartition("/")[2])


def _ask(tree: Tree, project: Project) -> dict[str, Any]:
    """Return the rest of the config: what to build for whom, and the names of its releases."""
    catalog = catalogs.load()
    newest = max(torch for torch in catalog.torch if cudas_of(torch, catalog))
    has_torch = uses_torch(tree, project) or _requires_torch(tree, project)
    has_cuda = any(name.endswith((".cu", ".cuh")) for name in tree.files)
    cuda = str(max(cudas_of(newest, catalog)))
    pythons = catalog.torch[newest].pythons["linux-x86_64"]
    shipped = {str(python) for python in pythons if not python.free_threaded}
    platforms: dict[str, Any] = {"linux-cpu": {"required": True}}
    if has_cuda:
        platforms = {"linux-cuda": {"required": True, "cuda": [cuda], "archs": list(ARCHS)}}
    named = f"py{{python}}{'-torch{torch}' * has_torch}{'-cu{cuda}' * has_cuda}"
    title = f"for Python {{python_title}}{' + PyTorch {torch}' * has_torch}{' + CUDA {cuda_version}' * has_cuda}"
    local = f"{'cu{cuda}{archs}' * has_cuda}{'torch{torch}' * has_torch}"
    return {
        "package": project.name,
        "python": [one for one in list_pythons(project, catalog) if one in shipped][-MOST_PYTHONS:],
        **({"torch": [str(newest)]} if has_torch else {}),
        "platforms": platforms,
        "build": {"sdist": False},
        "release": {
            "tag": f"{{package}}-v{{version}}-{named}",
            "title": f"{{display}} v{{version}} Wheel {title}",
            "local": local,
            "untagged": True,
        },
    }


def _requires_torch(tree: Tree, project: Project) -> bool:
    """Whether the build of compiled code requires torch: a pure wheel is the same for every torch."""
    pyproject = posixpath.join(project.folder, "pyproject.toml")
    table = parse_toml(tree.text(pyproject), pyproject).get("build-system")
    required = table.get("requires") if isinstance(table, dict) else None
    names = map(name_of_required, filter(None, map(str, required if isinstance(required, list) else ())))
    return any(map(COMPILED.search, tree.files)) and "torch" in names


def _decisions(tree: Tree, project: Project, config: Path) -> list[str]:
    """Return what no source shows."""
    text, abi = config.read_text(encoding="utf-8"), find_abi(tree, project)
    has_torch = "\ntorch:" in text
    is_doubtful = abi.kind is Binding.UNKNOWN and not has_torch
    return [
        f"{'`python` and `torch`' if has_torch else '`python`'} in {config}: for whom the wheels are",
        *([f"whether its wheels need a torch, which the recipe does not name: {abi.where}"] if is_doubtful else []),
        *([f"`archs` in {config}: which GPUs they are for"] if "archs:" in text else []),
        "`release: display`, the name as people write it",
        "`validate: imports`, the modules that must import",
        f"whether its licence lets you publish wheels: {_licence(tree)}",
    ]


def _licence(tree: Tree) -> str:
    found = [name for name in tree.files if re.match(r"(?i)(licen[cs]e|copying)[^/]*$", name)]
    return ", ".join(found) or "the source has no licence file"
