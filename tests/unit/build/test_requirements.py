"""What the build of an sdist is told: the same as one of the wheels' builds."""

from __future__ import annotations

import pytest

from ci_tools.build.requirements import job_of_sdist, needs_of_job, needs_of_sdist
from ci_tools.catalog.accelerators.rocm import ROCM as AMD
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import PlatformRequest
from ci_tools.model.versions import Minor
from tests.builders.planned import ABIS, CUDAS, asked, planned

ROCM = Accelerator(AMD, Minor(7, 2))


@pytest.mark.parametrize(
    ("platforms", "expected"),
    [
        pytest.param([asked(Platform.LINUX_CPU), asked()], "linux-cuda", id="cuda-before-others"),
        pytest.param([asked(Platform.WINDOWS), asked(Platform.LINUX_CPU)], "linux-cpu", id="linux-before-others"),
        pytest.param([asked(Platform.LINUX_ROCM, accelerators=(ROCM,), archs=("gfx942",))], None, id="rocm-has-none"),
    ],
)
def test_the_sdist_is_told_what_the_job_with_most_sources_is(
    platforms: list[PlatformRequest], expected: str | None
) -> None:
    plan = planned(platforms, abi=ABIS[1])
    told = job_of_sdist(plan)
    assert (told and str(told.platform)) == expected
    assert needs_of_sdist(plan).speaks_for == (told and told.accelerator)


@pytest.mark.parametrize(
    ("abi", "speaks_for"),
    [
        pytest.param(ABIS[1], None, id="a-whole-abi-needs-the-headers-of-that-cuda"),
        pytest.param(ABIS[3], CUDAS[0], id="a-stable-abi-takes-those-of-any-torch"),
    ],
)
def test_only_a_build_of_the_stable_abi_gets_answers_of_another_torch(
    abi: object, speaks_for: Accelerator | None
) -> None:
    plan = planned([asked()], abi=abi)  # type: ignore[arg-type]
    assert needs_of_job(plan.jobs[0], plan).speaks_for == speaks_for
