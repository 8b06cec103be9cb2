"""Which image a job is built in: each required job of our own configs has a compiler on a runner that GitHub hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.machine.runner import is_hosted
from ci_tools.model.plan import Job
from ci_tools.model.request import ToolchainKind
from ci_tools.plan import make
from tests.builders.sources import world

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_each_required_job_of_our_own_has_a_compiler_on_a_hosted_runner(tmp_path: Path) -> None:
    plans = [make.make_plan(path, world(tmp_path)).plan for path in (ROOT / "package").glob("fatwheel*.yml")]
    required = [job for plan in plans for job in plan.jobs if job.required and job.accelerator]
    assert {job.name: has_compiler(job) for job in required} == {"linux-cuda-cu129": True, "linux-cuda-cu130": True}


def has_compiler(job: Job) -> bool:
    """Whether a CUDA job finds a compiler: in the image of its version, or in the package index."""
    if job.accelerator is None or job.accelerator.version is None or not is_hosted(job.runner):
        return False
    cuda = catalog.load().cuda[job.accelerator.version]
    is_fetched = bool(cuda.pypi) and job.toolchain is not ToolchainKind.SYSTEM
    is_there = job.container.endswith(f":cuda{cuda.version}") and job.toolchain is not ToolchainKind.PYPI
    return job.accelerator.kind is CUDA and (is_fetched or is_there)
