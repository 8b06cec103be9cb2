"""The Python that makes an sdist."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.build.toolchain import choose_sdist_python
from ci_tools.model.platforms import Platform
from ci_tools.model.versions import Python
from tests.builders.planned import asked, planned


@pytest.mark.parametrize(
    ("requires", "python", "is_own"),
    [
        pytest.param("", "3.99", True, id="any"),
        pytest.param(">=3.10", "3.99", True, id="the-running-one"),
        pytest.param(">=3.99", "3.99", False, id="one-of-the-plan"),
        pytest.param(">=3.98", "3.98", True, id="none-on-this-machine"),
    ],
)
def test_the_sdist_is_made_by_a_python_that_the_project_admits(
    tmp_path: Path, requires: str, python: str, *, is_own: bool
) -> None:
    found = tmp_path / "python3.99"
    found.write_text("#!/bin/sh\necho 3.99\n", encoding="utf-8")
    found.chmod(0o755)
    plan = planned([asked(Platform.LINUX_CPU)])
    jobs = tuple(replace(job, python=Python.parse(python)) for job in plan.jobs)
    plan = replace(plan, jobs=jobs, project=plan.project._replace(requires_python=requires))
    environ = {"PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path)}
    assert choose_sdist_python(plan, environ) == (Path(sys.executable) if is_own else found)
