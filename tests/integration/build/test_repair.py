"""A wheel's level is the one that is proven, whatever its build says."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.build import repair
from ci_tools.formats.wheel import open_wheel
from tests.builders.plans import job_of
from tests.builders.wheels import MACHINE, linked, make

pytestmark = pytest.mark.slow  # auditwheel's own program


@pytest.mark.parametrize("claimed", [f"linux_{MACHINE}", f"manylinux2014_{MACHINE}", f"manylinux_2_5_{MACHINE}"])
def test_a_level_that_a_build_claims_is_not_kept_beside_the_proven_one(tmp_path: Path, claimed: str) -> None:
    planned = f"demo-1.0-py3-none-manylinux_2_28_{MACHINE}.whl"
    wheel = make(tmp_path, f"demo-1.0-py3-none-{claimed}.whl", {"demo/a.so": linked("int f(void) { return 1; }")})
    job = replace(job_of(planned), wheel_platform=f"manylinux_2_28_{MACHINE}")
    ended = repair.proven(wheel, job, tmp_path / "out", tmp_path / "log", os.environ)
    (made,) = (tmp_path / "out").iterdir()
    assert (ended.status, made.name) == (0, planned)
    opened = open_wheel(made)
    with opened.archive:
        assert opened.wheel_metadata.get_all("Tag") == [f"py3-none-manylinux_2_28_{MACHINE}"]
