"""Plans for tests of what comes after a plan: of the project `demo` 1.0, with the files that a test names."""

from __future__ import annotations

from typing import Any

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.model.evidence import Project
from ci_tools.model.plan import Covered, Job, JobKind, Pins, Plan, Skipped
from ci_tools.model.platforms import Accelerator, Cell, Platform
from ci_tools.model.request import PathSource, PlatformRequest, Request, ToolchainKind
from ci_tools.model.versions import Minor, Python
from ci_tools.plan import plan_file

SDIST = "demo-1.0.tar.gz"
OLDEST, TORCH = Python.parse("3.10"), Minor(2, 10)
STACKS = {
    Platform.LINUX_CUDA: Accelerator(CUDA, Minor(13, 0)),
    Platform.LINUX_ROCM: Accelerator(ROCM, Minor(7, 1)),
}
PROJECT = Project("demo", "1.0", ">=3.10", "hatchling.build", "pyproject.toml:1")


def job_of(wheel: str, platform: Platform | None = None, *archs: str) -> Job:
    """Return the job of a wheel: native for a platform, or pure without one."""
    stack = STACKS.get(platform) if platform else None
    covers = (Cell(platform, stack, TORCH, Python.parse("3.12")),) if platform else ()
    return Job(
        name=f"{platform}-{stack.label}" if stack else "pure",
        kind=JobKind.NATIVE if platform else JobKind.PURE,
        platform=platform,
        python=OLDEST,
        python_stays=False,
        torch=TORCH if platform else None,
        accelerator=stack,
        archs=archs,
        runner=("ubuntu-24.04",),
        owner=None,
        wheel=wheel,
        wheel_platform="any",
        requires_torch="",
        toolchain=ToolchainKind.PYPI,
        env=(),
        covers=covers,
    )


def plan_json(source: str, jobs: tuple[Job, ...], asked: dict[Platform, bool]) -> dict[str, Any]:
    """Return the plan.json of some jobs, and of platforms that are required or not; `source` is the source's sha256."""
    platforms = tuple(
        PlatformRequest(
            platform=platform,
            where="fatwheel.yml:3",
            required=required,
            accelerators=(STACKS[platform],) if platform in STACKS else (),
            wheel_platform="any",
        )
        for platform, required in asked.items()
    )
    request = Request(
        name="demo", config="fatwheel.yml", source=PathSource(path="."), pythons=(OLDEST,), platforms=platforms
    )
    served = tuple(Covered(cell, job.name, "built for it") for job in jobs for cell in job.covers)
    plan = Plan(
        request=request,
        project=PROJECT,
        pins=Pins(source, "c" * 40, "0" * 64, "1.0"),
        jobs=jobs,
        sdist=SDIST,
        covered=served,
        skipped=tuple(Skipped(one.cell._replace(python=Python.parse("3.9")), "too old") for one in served[:1]),
        warnings=(),
    )
    return plan_file.to_json(plan)
