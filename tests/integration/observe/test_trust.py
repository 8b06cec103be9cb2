"""Where a machine cannot confine a project's code, it runs for those alone who say that they trust it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.plan import make
from tests.builders.sources import world
from tests.unit.observe.test_trust import project

__all__ = ["project"]  # a fixture


@pytest.mark.slow
def test_code_that_is_trusted_runs_all_the_same(project: Path, tmp_path: Path) -> None:
    trusting = replace(world(tmp_path), trusts_source=True)
    assert [job.name for job in make.make_plan(project / "fatwheel.yml", trusting).plan.jobs] == ["pure"]
