"""Where a machine cannot confine a project's code, it runs for those alone who say that they trust it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.observe import laboratory
from ci_tools.plan import make
from tests.builders.sources import world, write

CONFIG = 'package: demo\npython: ["3.12"]\nplatforms:\n  linux-cpu:\n'
SETUP = "from setuptools import setup\nsetup(name='demo', version='1.0', py_modules=['demo'])\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose code has to run, on a machine that cannot confine it."""
    monkeypatch.setattr(laboratory, "why_not", lambda: "this kernel has no Landlock")
    return write(tmp_path / "a", {"fatwheel.yml": CONFIG, "setup.py": SETUP, "demo.py": ""})


@pytest.mark.slow
def test_code_that_is_trusted_runs_all_the_same(project: Path, tmp_path: Path) -> None:
    trusting = replace(world(tmp_path), trusts_source=True)
    assert [job.name for job in make.make_plan(project / "fatwheel.yml", trusting).plan.jobs] == ["pure"]
