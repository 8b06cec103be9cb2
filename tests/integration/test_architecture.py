"""The contract between rooms, held by import-linter: it is in pyproject.toml."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.language.modules import ROOT

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]


def contract(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the ci_tools of a folder."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as main; main()"]
    return subprocess.run(
        [*command, "--config", str(REPOSITORY / "pyproject.toml"), "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_upward_import_breaks_the_contract(tmp_path: Path) -> None:
    shutil.copytree(ROOT, tmp_path / "ci_tools", ignore=shutil.ignore_patterns("__pycache__", "*.xz"))
    assert contract(tmp_path).returncode == 0, contract(tmp_path).stdout
    with (tmp_path / "ci_tools/formats/wheel.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef plan() -> None:\n    from ci_tools.plan import planner\n\n    planner.plan\n")
    broken = contract(tmp_path)
    assert (broken.returncode, "ci_tools.formats.wheel -> ci_tools.plan.planner" in broken.stdout) == (1, True)
