"""The tutorial, done as it is written: its files, its commands, and what it shows of their output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.walkthroughs import REPOSITORY, follow, read_blocks, type_as_user

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

TUTORIAL = REPOSITORY / "docs" / "tutorials" / "first-release.md"


@pytest.mark.parametrize("releases", [2, pytest.param(3, marks=pytest.mark.long)])
def test_the_tutorial_is_what_happens(releases: int, tmp_path: Path) -> None:
    project = tmp_path / "hello"
    project.mkdir()
    text, raised = TUTORIAL.read_text(encoding="utf-8"), False
    for block in read_blocks(TUTORIAL):
        if not raised and text.index(block.text) > text.index("raise the version"):
            path, raised = project / "pyproject.toml", True
            path.write_text(path.read_text().replace('version = "1.0"', 'version = "1.1"'))
        releases -= "$ fatwheel release" in block.text
        if releases >= 0:
            follow(block, project, type_as_user)


def test_the_tutorial_about_recipes_is_what_happens(tmp_path: Path) -> None:
    for block in read_blocks(TUTORIAL.with_name("add-a-package.md")):
        follow(block, tmp_path, type_as_user)
