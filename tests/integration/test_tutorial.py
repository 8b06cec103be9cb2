"""The tutorial, done as it is written: its files, its commands, and what it shows of their output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.machine import python
from ci_tools.model.versions import Python
from tests.builders.walkthroughs import (
    REPOSITORY,
    Terminal,
    follow,
    read_blocks,
    type_aloud,
    type_as_user,
    type_quickly,
)

pytestmark = pytest.mark.slow

TUTORIALS = REPOSITORY / "docs" / "tutorials"
TUTORIAL = TUTORIALS / "first-release.md"
BY_KIND = sorted(set(TUTORIALS.glob("c*.md")))  # one for each kind of project
BUILDS = "$ fatwheel release"


@pytest.mark.parametrize(
    ("releases", "terminal"),
    [
        pytest.param(2, type_aloud, id="quickly"),
        pytest.param(3, type_as_user, id="as-a-user", marks=pytest.mark.long),
    ],
)
def test_the_tutorial_is_what_happens(releases: int, terminal: Terminal, tmp_path: Path) -> None:
    project = tmp_path / "hello"
    project.mkdir()
    text, raised = TUTORIAL.read_text(encoding="utf-8"), False
    for block in read_blocks(TUTORIAL):
        if not raised and text.index(block.text) > text.index("raise the version"):
            path, raised = project / "pyproject.toml", True
            path.write_text(path.read_text().replace('version = "1.0"', 'version = "1.1"'))
        releases -= "$ fatwheel release" in block.text
        if releases >= 0:
            follow(block, project, terminal)


def type_init_aloud(command: str, project: Path) -> str:
    """Run a command; of `init`, also what it says of the source."""
    return (type_aloud if " init " in command else type_quickly)(command, project)


@pytest.mark.parametrize("page", BY_KIND, ids=lambda page: page.stem)
def test_a_tutorial_is_planned_as_it_is_written(page: Path, tmp_path: Path) -> None:
    for block in read_blocks(page):
        if BUILDS not in block.text:
            follow(block, tmp_path, type_init_aloud)


def test_the_tutorial_about_recipes_is_what_happens(tmp_path: Path) -> None:
    if python.find(Python.parse("3.12"), os.environ) is None:
        pytest.skip("needs Python 3.12, as the page says")
    for block in read_blocks(TUTORIAL.with_name("add-a-package.md")):
        follow(block, tmp_path, type_aloud)
