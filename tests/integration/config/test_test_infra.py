"""The move from test-infra: what takes longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.sources import plan_of, write
from tests.unit.config.test_test_infra import CPU, LINUX, caller, moved

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


def test_a_project_with_a_setup_py_alone_is_called_as_it_is_imported(tmp_path: Path) -> None:
    setup = "from setuptools import setup\nsetup(name='tally', version='1.0', py_modules=['tally'])\n"
    folder = write(
        tmp_path / "checkout", {"setup.py": setup, "tally.py": "", LINUX: caller("package-name: tally", CPU)}
    )
    moved(folder)
    assert (plan_of(folder).project.name, plan_of(folder).project.version) == ("tally", "1.0")
