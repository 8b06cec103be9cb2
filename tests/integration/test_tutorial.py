"""The tutorial, done as it is written: its files, its commands, and what it shows of their output."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.integration.conftest import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

TUTORIAL = REPOSITORY / "docs" / "tutorials" / "first-release.md"
BLOCK = re.compile(r"(?P<before>[^\n]*)\n\n```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"`([\w./]+\.\w+)`[^`]*$")  # the file that a block is the content of
ANY = "…"  # a line that stands for any others, and in a path for what comes before
VARIES = re.compile(r"\d+\.\d s\b|\d+(\.\d+)? (B|kB)\b")  # seconds, and sizes: a compiler's


class Block(NamedTuple):
    """A block of the tutorial, and the line before it."""

    before: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    for found in BLOCK.finditer(TUTORIAL.read_text(encoding="utf-8")):
        yield Block(found["before"], found["language"], found["text"])


def follow(block: Block, project: Path) -> None:
    """Do what a block says: type its commands, or write its file."""
    if block.language == "console":
        for command, shown in commands(block.text):
            if not command.startswith("pip"):
                assert_shown(shown, typed(command, project), project)
        return
    named = NAMED.search(block.before)
    path = project / (named[1] if named else "fatwheel.yml")
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text() if block.before.startswith("At the end") else ""
    path.write_text(before + block.text)


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, shown


def typed(command: str, project: Path) -> str:
    """Return what a terminal shows of a command."""
    words = command.replace("fatwheel", f"{sys.executable} -m ci_tools", 1).split()
    kept = {name: value for name, value in os.environ.items() if name != "FATWHEEL_INSTALLER"}  # as a user: pip
    environ = {**kept, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    ran = subprocess.run(
        words, cwd=project, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return ran.stdout


def assert_shown(shown: list[str], said: str, project: Path) -> None:
    """Hold what the tutorial shows against what was said: in that order, all of it but where it says so."""
    actual = [plain(line.replace(str(project), f"/{ANY}")) for line in said.splitlines()]
    parts: list[list[str]] = [[]]
    for line in map(plain, shown):
        parts = [*parts, []] if line == ANY else [*parts[:-1], [*parts[-1], line]]
    at = 0
    for number, part in enumerate(parts):
        places = [at] if number == 0 else range(at, len(actual) + 1)
        place = next((place for place in places if actual[place : place + len(part)] == part), None)
        assert place is not None, f"{chr(10).join(part)}\n\nis not what it prints:\n\n{said}"
        at = place + len(part)


def plain(line: str) -> str:
    """Return a line without what is another at each run: times, sizes, and the width of a column."""
    return re.sub(r"\s+", " ", re.sub(r"─+", "─", VARIES.sub("#", line))).strip()


@pytest.mark.parametrize("releases", [2, pytest.param(3, marks=pytest.mark.long)])
def test_the_tutorial_is_what_happens(releases: int, tmp_path: Path) -> None:
    project = tmp_path / "hello"
    project.mkdir()
    text, raised = TUTORIAL.read_text(encoding="utf-8"), False
    for block in blocks():
        if not raised and text.index(block.text) > text.index("raise the version"):
            path, raised = project / "pyproject.toml", True
            path.write_text(path.read_text().replace('version = "1.0"', 'version = "1.1"'))
        releases -= "$ fatwheel release" in block.text
        if releases >= 0:
            follow(block, project)
