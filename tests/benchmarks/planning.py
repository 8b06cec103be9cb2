"""How long a plan takes, and how much memory: for the reference package, and for 100,000 cells."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

from ci_tools import catalog as catalogs
from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.model.evidence import (
    Binding,
    CellEvidence,
    Evidence,
    Extensions,
    PlatformEvidence,
    Project,
    PythonApi,
    TorchAbi,
)
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import PathSource, PlatformRequest, Request, Torch
from ci_tools.model.versions import Minor, Python
from ci_tools.plan import planner

ROOT = Path(__file__).parents[2]
PLATFORMS = (Platform.LINUX_CUDA, Platform.LINUX_CUDA_AARCH64, Platform.WINDOWS_CUDA, Platform.LINUX_XPU)
PYTHONS = tuple(Python(Minor(3, minor), threads) for minor, threads in product(range(10, 20), (False, True)))
TORCHES = tuple(Minor(2, minor) for minor in range(50))
CUDAS = tuple(Minor(major, minor) for major, minor in product(range(12, 17), range(5)))


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit)."""
    yield "plan package/fatwheel.yml, from the command line", _command_line(), "s", 0.3
    for what, binding in (("in one job per CUDA", Binding.NONE), ("in a job each", Binding.FULL)):
        request, evidence, catalog = _large(binding)
        seconds, megabytes = _planned(request, evidence, catalog)
        yield f"plan 100,000 cells {what}", seconds, "s", 2.0
        yield f"plan 100,000 cells {what}, peak memory", megabytes, "MB", 500.0


def _command_line() -> float:
    """Return the seconds of the quickest of five, a cold cache being the disk's affair."""
    command = [sys.executable, "-m", "ci_tools", "plan", "package/fatwheel.yml"]
    return min(_seconds(command) for _ in range(5))


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def _planned(request: Request, evidence: Evidence, catalog: Catalog) -> tuple[float, float]:
    """Return the seconds of a plan, and the megabytes of another one, for watching memory takes time."""
    started = time.perf_counter()
    plan = planner.make_plan(request, evidence, catalog)
    seconds = time.perf_counter() - started
    if plan.cells != len(PLATFORMS) * len(PYTHONS) * len(TORCHES) * len(CUDAS):
        raise RuntimeError(f"{plan.cells} cells were planned")
    del plan
    tracemalloc.start()
    planner.make_plan(request, evidence, catalog)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds, peak / 1e6


def _large(binding: Binding) -> tuple[Request, Evidence, Catalog]:
    """Return a request for 100,000 cells of native code, and a catalog that has them all."""
    facts = catalogs.load()
    hosts = {facts.platforms[platform].host for platform in PLATFORMS}
    kinds = product(hosts, (CUDA, XPU))
    release = replace(
        facts.torch[max(facts.torch)],
        pythons=dict.fromkeys(hosts, frozenset(PYTHONS)),
        accelerators=dict.fromkeys(kinds, frozenset(CUDAS)),
    )
    catalog = replace(facts, torch={torch: replace(release, version=torch) for torch in TORCHES})
    request = Request(
        name="large",
        config="fatwheel.yml",
        source=PathSource(path="."),
        pythons=PYTHONS,
        torch=Torch(versions=TORCHES),
        platforms=tuple(map(_asked, PLATFORMS)),
    )
    project = Project("large", "1.0", ">=3.9", "mesonpy", "pyproject.toml:1")
    found = tuple(_found(platform, binding) for platform in PLATFORMS)
    return request, Evidence(project=project, source_sha256="", commit=None, platforms=found), catalog


def _asked(platform: Platform) -> PlatformRequest:
    kind = XPU if platform is Platform.LINUX_XPU else CUDA
    accelerators = tuple(Accelerator(kind, version) for version in CUDAS)
    return PlatformRequest(
        platform=platform,
        where="fatwheel.yml:9",
        owner="@large",
        accelerators=accelerators,
        wheel_platform="manylinux_2_28",
    )


def _found(platform: Platform, binding: Binding) -> PlatformEvidence:
    return PlatformEvidence(
        platform=platform,
        native_files=("large.cu",),
        shown=CellEvidence(
            extensions=Extensions.SOME,
            extensions_where="pyproject.toml:1",
            python_api=PythonApi(binding, "pyproject.toml:1"),
            torch_abi=TorchAbi(binding, "large.cu:1", uses_torch=binding is Binding.FULL),
        ),
    )
