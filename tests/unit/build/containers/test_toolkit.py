"""What is installed in an image so that Fatwheel runs there."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from ci_tools.build.containers import toolkit
from ci_tools.build.containers.mounts import Mount
from ci_tools.build.containers.toolkit import read_requirements
from ci_tools.errors import MachineError

if TYPE_CHECKING:
    from pathlib import Path


def test_an_image_gets_the_versions_of_this_run() -> None:
    needed = read_requirements()
    assert any(one.startswith("build>=") for one in needed.asked)
    assert f"build=={metadata.version('build')}" in needed.pinned


def _run_from_source(monkeypatch: pytest.MonkeyPatch, folder: Path, project: str) -> None:
    """Let Fatwheel lie in a source with this project file, without being installed."""

    def refuse(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    monkeypatch.setattr(metadata, "requires", refuse)
    monkeypatch.setattr(toolkit, "SELF", Mount(folder / "ci_tools", "/fatwheel/toolkit/ci_tools"))


def test_a_source_that_is_not_installed_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_from_source(monkeypatch, tmp_path, '[project]\nname = "fatwheel"\ndependencies = ["build>=1.6"]\n')
    assert read_requirements().asked == ("build>=1.6",)


def test_the_project_file_of_another_project_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_from_source(monkeypatch, tmp_path, '[project]\nname = "other"\ndependencies = ["build>=1.6"]\n')
    with pytest.raises(MachineError, match="what Fatwheel requires is not known here"):
        read_requirements()
