"""The time of evidence for a whole request, in bare runs of the project's own `setup.py --name`.

A bare run has an importable torch without libraries (the parts of torch that builds get), and nothing else of ours.
Both are counted in seconds of the processor, so that a busy machine changes little. The projects are the heaviest of
the truth table and some of its small ones; each plan is made for 180 cells, with its source fetched and no other cache.
FATWHEEL_BENCHMARK_EVIDENCE names other projects of the table.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from ci_tools import catalog
from ci_tools.build.sdk.torch_choice import Wanted, find_torch
from ci_tools.config import loader
from ci_tools.machine.context import Outside, Silent
from ci_tools.source import files as source
from tests.builders.times import children_seconds
from tests.proof import truth

HEAVIEST = (
    *("transformer-engine-torch", "gsplat", "torch-cluster", "causal-conv1d", "megablocks", "greenlet", "torch-sparse"),
    *("torch-spline-conv", "torch-scatter", "psutil", "natten", "flash-attn"),
)
SMALL = ("sageattention", "markupsafe", "torchsort", "kiwisolver")
MOST = 12.0  # bare runs


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit)."""
    named = os.environ.get("FATWHEEL_BENCHMARK_EVIDENCE", "").split() or (*SMALL, *HEAVIEST)
    projects = {project["name"]: project for project in truth.projects()}
    with tempfile.TemporaryDirectory(prefix="fatwheel-evidence-") as folder:
        outside = Outside(environ=os.environ, cache=Path(folder, "cache"), reporter=Silent())
        site = _find_torch(outside)
        for name in named:
            bare, evidence = _measure_project(projects[name], Path(folder), site)
            yield f"{name}: a bare run", bare, "s", float("inf")
            yield f"{name}: evidence", evidence, "s", float("inf")
            yield f"{name}: evidence in bare runs", evidence / bare, "x", MOST


def _find_torch(outside: Outside) -> Path:
    """Return the folder of a torch that can be imported and has no library."""
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wanted = Wanted(SpecifierSet("==2.13.*"), "cpu", python)
    return find_torch(wanted, catalog.load(), outside, os.environ).site


def _measure_project(project: dict[str, Any], folder: Path, site: Path) -> tuple[float, float]:
    """Return the seconds of the quickest of three bare runs, and those of a plan without any cached evidence."""
    config = truth.write_config(project, folder, truth.WIDE)
    environ = {**os.environ, "FATWHEEL_CACHE": str(folder / "cache")}
    request = loader.load(config, catalog.load())
    root = source.open_tree(request, folder, Outside(environ=environ, cache=folder / "cache", reporter=Silent())).root
    command = [sys.executable, "-m", "ci_tools", "plan", str(config), "--format", "json"]
    evidence = _run(command, Path.cwd(), environ)
    shutil.copytree(root, folder / "bare")
    known = {**os.environ, "PYTHONPATH": str(site), **{k: str(v) for k, v in project.get("env", {}).items()}}
    bare = min(_run([sys.executable, "setup.py", "--name"], folder / "bare", known) for _ in range(3))
    shutil.rmtree(folder / "bare")
    return bare, evidence


def _run(command: Sequence[str], folder: Path, environ: Mapping[str, str]) -> float:
    """Return the seconds of the processor that a command takes, with all that it starts; a failure counts as well."""
    before = children_seconds()
    subprocess.run(command, cwd=folder, env=environ, check=False, capture_output=True)
    return children_seconds() - before
