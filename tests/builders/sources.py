"""Source trees for tests: a few files in a folder, and what Fatwheel makes of them."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ci_tools import catalog
from ci_tools.config import loader
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.storage import cache_folder
from ci_tools.model.evidence import Evidence
from ci_tools.model.plan import Plan
from ci_tools.model.request import Request
from ci_tools.observe import collector
from ci_tools.plan import make
from ci_tools.source import files as source

CONFIG = """\
package: demo
python: ["3.12"]
platforms:
  linux-cpu:
"""
PROJECT = """\
[build-system]
build-backend = "flit_core.buildapi"
[project]
requires-python = ">=3"
name = "demo"
version = "1.0"
"""
# One that cmake builds.
SCIKIT = """\
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1.0"
"""
# The same with one wheel for all Pythons.
SCIKIT_BUILD = f'{SCIKIT}[tool.scikit-build]\nwheel.py-api = "py3"\n'


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files into a folder, and return it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def demo(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """Write a small project with a config, and return its folder."""
    return write(folder, {"fatwheel.yml": CONFIG, "pyproject.toml": PROJECT, "demo.py": "", **(files or {})})


def world(folder: Path, **environ: str) -> Outside:
    """Return an outside whose cache is below `folder`, and that shows nothing."""
    known = {"PATH": os.environ["PATH"], "HOME": str(folder), "FATWHEEL_CONTAINERS": "none"}
    if "PIP_INDEX_URL" in environ or "PIP_NO_INDEX" in environ:  # it has what else pip's files would be asked for
        known["PIP_CONFIG_FILE"] = os.devnull
    return Outside(environ={**known, **environ}, cache=folder / "cache", reporter=Silent())


def users_world() -> Outside:
    """Return an outside with the user's variables and cache, which has the pinned cmake, and that shows nothing."""
    return Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())


@functools.cache
def shared_world() -> Outside:
    """Return an outside whose cache all tests of this process share: what a build shows is observed once for them."""
    folder = Path(tempfile.mkdtemp(prefix="fatwheel-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return world_with_tools(folder)


def world_with_uv(folder: Path, **environ: str) -> Outside:
    """Return such an outside in which uv installs as it does for the user, with what it has in the user's cache."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cache = os.environ.get("UV_CACHE_DIR") or user / "uv"
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}  # pip is not asked again
    return world(folder, FATWHEEL_INSTALLER="uv", UV_CACHE_DIR=str(cache), **{**settings, **environ})


def world_with_tools(folder: Path) -> Outside:
    """Return such an outside whose cache has the programs of the user's."""
    lend_tools(folder)
    return world(folder)


def lend_tools(folder: Path) -> None:
    """Let the cache below `folder` have the user's: cmake and what makes versions are not installed for each test."""
    (folder / "cache").mkdir(parents=True, exist_ok=True)
    for name in ("tools", "version-tools"):
        own = cache_folder(os.environ) / name
        own.mkdir(parents=True, exist_ok=True)
        place = folder / "cache" / name
        if not place.exists():
            place.unlink(missing_ok=True)  # the link of another user, or of a home that is gone
            place.symlink_to(own)


def request_of(folder: Path) -> Request:
    """Return what the folder's fatwheel.yml asks for."""
    return loader.load(folder / "fatwheel.yml", catalog.load())


def evidence_of(folder: Path, outside: Outside | None = None) -> Evidence:
    """Return what the folder shows; without an `outside`, its cache is beside the folder."""
    request, outside = request_of(folder), outside or world_with_tools(folder.parent)
    return collector.gather(request, source.open_tree(request, folder, outside), catalog.load(request.catalog), outside)


def plan_of(folder: Path, outside: Outside | None = None, *, tag: str = "") -> Plan:
    """Return the plan of the folder's fatwheel.yml; without an `outside`, its cache is beside the folder."""
    return make.make_plan(folder / "fatwheel.yml", outside or world_with_tools(folder.parent), tag=tag).plan


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder as nobody in particular, and return what it prints."""
    settings = ("user.name=x", "user.email=x@localhost", "init.defaultBranch=main", "protocol.file.allow=always")
    command = ["git", *(part for setting in settings for part in ("-c", setting)), *arguments]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True, text=True).stdout.strip()


def committed(folder: Path) -> str:
    """Commit all of a folder, in a repository of its own, and return the commit."""
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "x")
    return git(folder, "rev-parse", "HEAD")
