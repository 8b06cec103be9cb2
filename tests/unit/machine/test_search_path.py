"""The PATH of a build, on a machine whose programs have the names of Windows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.catalog.accelerators import list_compilers
from ci_tools.machine.process import clean_environment
from ci_tools.machine.search_path import search_path
from tests.builders.visual_studio import program
from tests.unit.build.test_folders import refuse


@pytest.mark.parametrize("links", [True, False])
def test_the_compilers_of_windows_are_hidden(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001
    for name in ("nvcc.exe", "HIPCC.exe", "git.exe"):
        program(tmp_path / "bin" / name, "exit 0")
    if not links:
        monkeypatch.setattr(Path, "symlink_to", refuse())
    shown = search_path(
        os.pathsep.join([str(tmp_path / "bin"), "/nowhere"]), tmp_path / "shadows", list_compilers()
    ).split(os.pathsep)
    assert [path.name for path in Path(shown[0]).iterdir()] == ["git.exe"]
    assert os.access(Path(shown[0]) / "git.exe", os.X_OK)
    assert shown[1] == "/nowhere"


def test_a_build_on_windows_knows_its_machine() -> None:
    own = {
        "PROCESSOR_ARCHITECTURE": "AMD64",
        "COMSPEC": r"C:\Windows\cmd.exe",
        "PATHEXT": ".EXE",
        "SYSTEMROOT": r"C:\Windows",
    }
    assert clean_environment({**own, "CL": "/O1", "CUDA_PATH": r"C:\cuda"}, {}) == {**own, "PYTHONNOUSERSITE": "1"}
