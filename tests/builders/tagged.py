"""Projects that take their version from the tags of their repository, each by its own tool, and real repositories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci_tools.machine.context import Outside
from ci_tools.plan import plan_file
from ci_tools.plan.make import make_plan
from tests.builders.sources import git, lend_tools, world_with_uv, write

CONFIG = 'package: demo\npython: ["3.12"]\nplatforms:\n  linux-cpu:\n'
SETUPTOOLS = "setuptools.build_meta"
PACKAGES = '[tool.setuptools]\npackages = ["demo"]\n'
POETRY = """\
[build-system]
requires = ["poetry-core", "poetry-dynamic-versioning>=1.0.0,<2.0.0"]
build-backend = "poetry_dynamic_versioning.backend"
[tool.poetry]
name = "demo"
version = "0.0.0"
description = ""
authors = []
[tool.poetry.dependencies]
python = ">=3.10"
[tool.poetry-dynamic-versioning]
enable = true
"""
DESCRIBED = """\
import subprocess
from setuptools import setup
try:
    said = subprocess.check_output(["git", "describe", "--tags"], text=True).strip()
except (OSError, subprocess.CalledProcessError):
    said = "v0.0.0-unknown"
setup(name="demo", packages=["demo"], version=said[1:].replace("-", "+", 1).replace("-", "."))
"""
KEYWORD = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension
setup(name="demo", packages=["demo"], use_scm_version={"local_scheme": "no-local-version"},
      setup_requires=["setuptools_scm"], cmdclass={"build_ext": BuildExtension})
"""
MESON = """\
project('demo', 'c', 'cython', meson_version: '>=1.1',
  version: run_command(['demo/describe.py', 'v1.2.0'], check: true).stdout().strip())
import('python').find_installation(pure: false).extension_module('demo', 'demo.c', install: true)
"""
SCRIPT = """\
#!/usr/bin/env python3
import subprocess, sys
from packaging.version import Version
said = subprocess.run(["git", "describe", "--tags"], text=True, capture_output=True).stdout.strip() or "0"
print(Version(said if said == sys.argv[1] else said.replace("-", ".post", 1).replace("-", "+", 1)))
"""


def _dynamic(requires: str, backend: str, rest: str) -> dict[str, str]:
    system = f'[build-system]\nrequires = [{requires}]\nbuild-backend = "{backend}"\n'
    return {
        "pyproject.toml": f'{system}[project]\nname = "demo"\ndynamic = ["version"]\nrequires-python = ">=3.10"\n{rest}'
    }


# Each with the version that its tool gives one commit after the tag v1.2.0, without its label.
TOOLS: Mapping[str, tuple[dict[str, str], str]] = {
    "setuptools-scm": (
        _dynamic('"setuptools>=77", "setuptools-scm>=8"', SETUPTOOLS, f"{PACKAGES}[tool.setuptools_scm]\n"),
        "1.2.1.dev1",
    ),
    "use_scm_version": ({"setup.py": KEYWORD}, "1.2.1.dev1"),
    "git-describe": ({"setup.py": DESCRIBED}, "1.2.0"),
    "hatch-vcs": (
        _dynamic('"hatchling", "hatch-vcs"', "hatchling.build", '[tool.hatch.version]\nsource = "vcs"\n'), "1.2.1.dev1",
    ),
    "versioningit": (
        _dynamic('"setuptools>=77", "versioningit"', SETUPTOOLS, f"{PACKAGES}[tool.versioningit]\n"), "1.2.0.post1",
    ),
    "poetry-dynamic-versioning": ({"pyproject.toml": POETRY}, "1.2.0.post1.dev0"),
    "pdm": (_dynamic('"pdm-backend"', "pdm.backend", '[tool.pdm.version]\nsource = "scm"\n'), "1.2.1.dev1"),
    "setuptools-git-versioning": (
        _dynamic('"setuptools>=77", "setuptools-git-versioning"', SETUPTOOLS,
                 f"{PACKAGES}[tool.setuptools-git-versioning]\nenabled = true\n"), "1.2.0.post1",
    ),
    "uv-dynamic-versioning": (
        _dynamic('"hatchling", "uv-dynamic-versioning"', "hatchling.build",
                 '[tool.hatch.version]\nsource = "uv-dynamic-versioning"\n'), "1.2.0.post1.dev0",
    ),
    "scikit-build-core": (
        _dynamic('"scikit-build-core", "setuptools-scm"', "scikit_build_core.build",
                 '[tool.scikit-build]\nwheel.cmake = false\nwheel.packages = ["demo"]\n'
                 'metadata.version.provider = "scikit_build_core.metadata.setuptools_scm"\n[tool.setuptools_scm]\n'),
        "1.2.1.dev1",
    ),
    "meson": (
        {**_dynamic('"meson-python", "packaging"', "mesonpy", ""), "meson.build": MESON, "demo.c": "",
         "demo/describe.py": SCRIPT}, "1.2.0.post1",
    ),
}  # fmt: skip


def tagged_world(folder: Path) -> Outside:
    """Return an outside whose cache has the version tools of the user's: they are installed once, not for each test."""
    lend_tools(folder)
    return world_with_uv(folder)


def commit(folder: Path, name: str) -> None:
    """Commit everything, with one more file."""
    git(write(folder, {name: ""}), "add", ".")
    git(folder, "commit", "--quiet", "--message", name)


def repository(folder: Path, files: Mapping[str, str], tag: str = "") -> Path:
    """Return a repository of a project and its config, with a tag at its only commit."""
    write(folder, {"demo/__init__.py": "", "fatwheel.yml": CONFIG, **files})
    git(folder, "init", "--quiet")
    commit(folder, "demo/first.py")
    if tag:
        git(folder, "tag", tag)
    return folder


def ask_plan(folder: Path, outside: Outside, tag: str = "") -> dict[str, Any]:
    """Return the plan's JSON."""
    plan: dict[str, Any] = json.loads(plan_file.dumps(make_plan(folder / "fatwheel.yml", outside, tag=tag).plan))
    return plan
