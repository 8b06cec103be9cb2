"""Where a machine cannot confine a project's code, it runs for those alone who say that they trust it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
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


def test_code_that_cannot_be_confined_is_not_run(project: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        make.make_plan(project / "fatwheel.yml", world(tmp_path))
    assert "this machine cannot confine it: this kernel has no Landlock" in caught.value.message
    assert "--trust-source" in caught.value.hint


def test_a_project_that_only_has_to_be_read_needs_no_trust(project: Path, tmp_path: Path) -> None:
    pyproject = "[build-system]\nbuild-backend = 'flit_core.buildapi'\n[project]\nname = 'demo'\nversion = '1.0'\n"
    write(project, {"pyproject.toml": pyproject})
    assert make.make_plan(project / "fatwheel.yml", world(tmp_path)).plan.jobs
