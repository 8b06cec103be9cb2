"""The toolkit under every Python that the README declares, and under the one that this machine's distribution ships."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from ci_tools.machine import python as interpreter
from ci_tools.machine.process import output
from ci_tools.model.versions import Python
from tests.builders import wheels
from tests.builders.equipped import equip
from tests.builders.sources import write
from tests.integration.conftest import REPOSITORY
from tests.language.modules import list_modules

SYSTEM = Path("/usr/bin/python3")  # Debian 12's is 3.11.2, Ubuntu 22.04's 3.10.12 and 24.04's 3.12.3
DECLARED = ("3.10", "3.11", "3.12", "3.13", "3.14")
# These lie in a project's build, or need torch, which the toolkit does without.
ELSEWHERE = ("observe.inside", "build.sdk.inside", "install.guard")
IMPORT = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(f'ci_tools.{name}')"
CONFIG = 'package: demo\npython: ["3.12"]\nplatforms:\n  linux-cpu: {owner: us, native: ["*.c"]}\n'
PROJECT = '[build-system]\nrequires = ["setuptools"]\n[project]\nname = "demo"\nversion = "1.0"\n'
SETUP = 'from setuptools import Extension, setup\nsetup(ext_modules=[Extension("demo._C", ["demo.c"])])\n'


def refuse_flaws(found: Path, folder: Path) -> None:
    """Import every module with a Python, plan a project whose setup.py is observed, and run a step of a workflow."""
    names = [name for name in list_modules() if not name.startswith(ELSEWHERE) and not name.endswith("__main__")]
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "WITH_FILES": str(wheels.make(folder))}
    run = partial(subprocess.check_output, cwd=folder, env=environ, text=True)
    python = equip(found)
    run([python, "-W", "error::SyntaxWarning", "-c", IMPORT, *names])
    write(folder, {"fatwheel.yml": CONFIG, "pyproject.toml": PROJECT, "setup.py": SETUP, "demo.c": ""})
    plan = json.loads(run([python, "-m", "ci_tools", "plan", "--format", "json"]))
    assert [job["wheel"] for job in plan["jobs"]] == ["demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"]
    run([python, "-m", "ci_tools", "ci", "step", "audit"])


@pytest.mark.slow
@pytest.mark.skipif(not SYSTEM.exists(), reason="this machine's distribution ships no Python")
def test_the_python_of_this_machines_distribution_runs_the_toolkit(tmp_path: Path) -> None:
    said = output([SYSTEM, "-c", "import sys; print(*sys.version_info[:3])"]) or "0"
    if tuple(map(int, said.split())) in {sys.version_info[:3], (0,)} or int(said.split()[1]) < 10:
        pytest.skip(f"Python {said} of {SYSTEM} is this one, or older than 3.10")
    refuse_flaws(SYSTEM, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("python", DECLARED)
def test_a_declared_python_runs_the_toolkit(python: str, tmp_path: Path) -> None:
    found = interpreter.find(Python.parse(python), os.environ)
    if found is None:
        pytest.skip(f"Python {python} is not on this machine")
    refuse_flaws(found, tmp_path)
