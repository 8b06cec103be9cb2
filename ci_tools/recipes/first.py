"""Writes a first recipe from what a repository or an sdist shows, and says what a person has to decide."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools import catalog as catalogs
from ci_tools.config import loader
from ci_tools.config.project import BLANK
from ci_tools.config.starter import read_starter
from ci_tools.config.starter.choices import PlatformChoice, Starter
from ci_tools.config.starter.sdist_choice import choose_sdist
from ci_tools.errors import InputError
from ci_tools.machine.context import Outside
from ci_tools.model.names import safe_name
from ci_tools.model.platforms import Platform
from ci_tools.model.request import GitSource
from ci_tools.model.versions import read_version
from ci_tools.recipes.choice import RecipeChoice
from ci_tools.recipes.releases import releases_of_all, write_config
from ci_tools.recipes.shelf import CALLERS, Recipe, new_folder
from ci_tools.recipes.upstream import FIELD
from ci_tools.source import files as source
from ci_tools.source import git
from ci_tools.source.files import Tree

TAG = re.compile(r"(?P<before>v|release-|)(?P<version>\d[\w.+!-]*)")
# a URL, USER@HOST: of SSH, or a path: anything else is a name on the package index
ADDRESS = re.compile(r"[\w+.-]+://|[^/]+@[^/]+:|[./~]")
MAX_PYTHONS = 3  # of a first recipe whose wheels serve one Python each: the newest
UNTOLD = "0.0.1"  # of a config that is read for its source only


class FirstRecipe(NamedTuple):
    """The new config, and what a person still has to decide."""

    config: Path
    decisions: tuple[str, ...]


class Origin(NamedTuple):
    """Where the source is, as a recipe says it, and what is known of it before it is fetched."""

    where: dict[str, Any]
    version: str = ""  # "": only the source may say it
    name: str = ""


def write_first(address: str, folder: Path | None, outside: Outside) -> FirstRecipe:
    """Write a recipe for the newest version of a git repository, or of a project on the package index.

    A repository without a tag of a version gets a recipe for its newest commit. Raises InputError if the folder exists,
    or if the source has no project that can be built.
    """
    origin = _newest_of_git(address, outside) if ADDRESS.match(address) else _newest_sdist(address, outside)
    tree = _open({"package": "unknown", "version": origin.version or UNTOLD, "source": origin.where}, outside)
    blank = dataclasses.replace(BLANK, version=origin.version or None)  # its copy has no tags that a tool could read
    starter, _ = read_starter(tree, catalogs.load(), outside, blank=blank)
    name, version = origin.name or starter.name, origin.version or starter.version
    if not version:
        msg = f"{address} has no tag of a final version, and its source states none"
        raise InputError(msg, hint="write a recipe with the commit as its `ref`, and its `version`")
    folder = folder or CALLERS / safe_name(canonicalize_name(name))  # the project's own word
    root = {"package": name, "version": version, "source": dict(origin.where), **_ask(starter)}
    root["source"] |= {"subdirectory": starter.folder} if starter.folder else {}
    with new_folder(folder):
        config = write_config(root, tree.root, folder)
        releases_of_all([Recipe(folder.name, folder, is_ours=False)], RecipeChoice(), outside)
    return FirstRecipe(config, tuple(_decisions(tree, starter, origin, config)))


def _newest_of_git(url: str, outside: Outside) -> Origin:
    """Return the source with the newest tag of a final version, or else the newest commit."""
    local = Path(url).expanduser()
    url = str(local.resolve()) if local.is_dir() else url  # a recipe's copies lie in other folders
    asked = GitSource(url=url, ref="HEAD")
    where = git.address(asked, Path())
    found = {}
    for tag in git.remote_tags(asked, where, outside.environ):
        named = TAG.fullmatch(tag)
        version = read_version(named["version"]) if named else None
        if named and version and not version.is_prerelease:
            # Later versions are found by the same pattern, but for calendar tags such as 25.09, of the version 25.9.
            found[version] = f"{named['before']}{FIELD}" if str(version) == named["version"] else tag
    if not found:
        return Origin({"git": url, "ref": git.commit_of(asked, where, outside.environ)})
    newest = max(found)
    return Origin({"git": url, "ref": found[newest]}, str(newest))


def _newest_sdist(name: str, outside: Outside) -> Origin:
    """Return the source with the newest final sdist of a project, or that of NAME==VERSION."""
    found = choose_sdist(name, outside)
    return Origin({"sdist": dataclasses.asdict(found)}, found.version, found.name)


def _open(root: dict[str, Any], outside: Outside) -> Tree:
    """Return the source as a tree, by a config that asks for no more than that."""
    with tempfile.TemporaryDirectory() as scratch:
        asked = {**root, "python": ["3.13"], "platforms": {"linux-cpu": None}}
        config = write_config(asked, Path(scratch), Path(scratch) / "first")
        return source.open_tree(loader.load(config, catalogs.load()), config.parent, outside)


def _ask(starter: Starter) -> dict[str, Any]:
    """Return the rest of the config: what to build for whom, and the names of its releases."""
    platform = _choose_platform(starter)
    is_per_python = platform.is_native and starter.is_per_python
    pythons = [one for one in starter.pythons if not one.free_threaded][-MAX_PYTHONS:]
    requires = {"requires": [one.requirement for one in starter.lacking]} if starter.lacking else {}
    torches = [*map(str, starter.torch.versions)]
    return {
        "python": [str(one) for one in (pythons if is_per_python else starter.pythons)],
        **({"torch": {"lowest": torches[0]} if starter.torch.is_open else torches} if torches else {}),
        "platforms": {str(platform.platform): _ask_platform(platform)},
        **({"validate": {**requires, "imports": [*starter.imports]}} if starter.imports else {}),
        "build": {"sdist": False, **({"env": dict(starter.env)} if starter.env else {})},
        "release": _name_releases(starter, platform, is_per_python=is_per_python),
    }


def _choose_platform(starter: Starter) -> PlatformChoice:
    """Return the platform to begin with: CUDA's if something is compiled for it, else Linux, else any."""
    by_kind = {one.platform: one for one in starter.platforms}
    wanted = (by_kind.get(Platform.LINUX_CUDA), by_kind.get(Platform.LINUX_CPU), *starter.platforms)
    return next(one for one in wanted if one)


def _ask_platform(one: PlatformChoice) -> dict[str, Any]:
    if not one.kind:
        return {"required": True}
    toolchain = {} if one.toolchain is one.toolchain.AUTO else {"toolchain": str(one.toolchain.value)}
    return {"required": True, str(one.kind): [*map(str, one.versions)], "archs": [*one.archs], **toolchain}


def _name_releases(starter: Starter, platform: PlatformChoice, *, is_per_python: bool) -> dict[str, Any]:
    """Return how releases are called: by what their wheels differ in, so that none has the wheel of another."""
    is_per_torch = platform.is_native and bool(starter.torch.versions) and not starter.torch.is_open
    axes = [
        *([("py{python}", "Python {python_title}", "")] if is_per_python else []),
        *([("torch{torch}", "PyTorch {torch}", "torch{torch}")] if is_per_torch else []),
        *([("cu{cuda}", "CUDA {cuda_version}", "cu{cuda}{archs}")] if "cuda" in _ask_platform(platform) else []),
    ]
    tags, titles, locals_ = zip(*axes, strict=True) if axes else ((), (), ())
    return {
        "tag": "-".join(("{package}-v{version}", *tags)),
        "title": f"{{display}} v{{version}} Wheel{' for ' if titles else ''}{' + '.join(titles)}",
        "local": "".join(reversed(locals_)),  # as in ours: +cu130sm89torch2.10.0
        "untagged": True,
    }


def _decisions(tree: Tree, starter: Starter, origin: Origin, config: Path) -> Iterator[str]:
    """Yield what no source shows."""
    if not origin.version:
        yield f"`version` and `ref` in {config}: there is no tag of a final version, so it is of the newest commit"
    yield f"`python`{' and `torch`' if starter.torch.versions else ''} in {config}: for whom the wheels are"
    for left in starter.left:
        if left.platform is Platform.LINUX_CUDA:
            yield f"whether it should have {left.platform}: {left.why}"
    if _choose_platform(starter).archs:
        yield f"`archs` in {config}: which GPUs they are for"
    yield "`release: display`, the name as people write it"
    if not starter.imports:
        yield "`validate: imports`, the modules that must import"
    licences = [name for name in tree.files if re.match(r"(?i)(licen[cs]e|copying)[^/]*$", name)]
    said = ", ".join(licences) or "the source has no licence file"
    yield f"whether its licence lets you publish wheels: {said}"
