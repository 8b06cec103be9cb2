"""The pages that people follow, each walked to its end, and the table that says where that is and what stops there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.builders.sources import git
from tests.builders.walkthroughs import REPOSITORY, commands, commit, follow, install, read_blocks, type_as_user
from tests.builders.worlds import make_project, open_world

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from pathlib import Path

from tests.builders.walkthroughs import Block

DOCS = REPOSITORY / "docs"
TABLE = REPOSITORY / "tests" / "builders" / "walks.toml"
WALKS: dict[str, dict[str, Any]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))
PAGES = sorted(page for folder in ("tutorials", "examples", "how-to") for page in (DOCS / folder).glob("*.md"))
ENDS = {"an installed import", "a wheel", "an index", "a plan", "stand-ins", "nothing to type"}
RELEASE = "fatwheel release --to dir:dist/index --here"  # what a plan says that comes next
FILES = [*(REPOSITORY / "tests").rglob("test_*.py")]
TESTS = {path.stem for path in FILES} | {
    name for path in FILES for name in re.findall(r"(?m)^def (test_\w+)", path.read_text(encoding="utf-8"))
}
PROJECTS, COMMANDS = "test_a_page_of_a_project_ends_in_an_import", "test_the_commands_of_a_page_are_typed"


def walked_by(test: str) -> list[str]:
    return [name for name, walk in WALKS.items() if walk["by"].endswith(f"::{test}")]


def typed(page: str) -> list[str]:
    """Return the command lines that a page shows, each without the prompt and what is printed."""
    blocks = MarkdownIt().parse((DOCS / page).read_text(encoding="utf-8"))
    return [command for block in blocks if block.info == "console" for command, _ in commands(block.content)]


def test_every_page_has_a_walk_and_every_walk_a_page() -> None:
    assert sorted(WALKS) == sorted(page.relative_to(DOCS).as_posix() for page in PAGES)


@pytest.mark.parametrize("page", WALKS)
def test_a_walk_says_where_it_ends_and_who_walks_it(page: str) -> None:
    file, _, test = WALKS[page]["by"].partition("::")
    assert WALKS[page]["end"] in ENDS
    assert f"def {test}(" in (REPOSITORY / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", WALKS)
def test_what_stops_a_walk_is_on_the_page_and_has_a_reason(page: str) -> None:
    stops = WALKS[page].get("stops", {})
    assert [start for start in stops if not any(line.startswith(start) for line in typed(page))] == []
    assert all(len(reason.split()) > 2 for reason in stops.values())
    assert [name for name in re.findall(r"\btest_\w+", " ".join(stops.values())) if name not in TESTS] == []
    assert (WALKS[page]["end"] == "nothing to type") == (typed(page) == [])


@pytest.mark.long
@pytest.mark.parametrize("page", walked_by(PROJECTS))
def test_a_page_of_a_project_ends_in_an_import(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = os.environ.get("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_FIND_LINKS", WALKS[page].get("find-links", usual))
    project = tmp_path / "project"
    project.mkdir()
    said = [follow_quickly(block, project) for block in read_blocks(DOCS / page)]
    python = install(next(filter(None, reversed(said)), "") or release(page, project, usual), tmp_path / "environment")
    for module in re.findall(r"^  imports: \[(\w+)\]", (project / "fatwheel.yml").read_text(), re.MULTILINE):
        subprocess.run([python, "-c", f"import {module}"], check=True, cwd=tmp_path)


def follow_quickly(block: Block, project: Path) -> str:
    """Do what a block says, but for plans, which other tests compare; return what a release in it prints."""
    said: list[str] = []

    def type_and_keep(command: str, project: Path) -> str:
        said.append(type_as_user(command, project))
        return said[-1]

    if block.language == "console" and "$ fatwheel" in block.text and "$ fatwheel release" not in block.text:
        return "" if "$ git init" not in block.text else str(git(project, "init", "--quiet"))
    follow(block, project, type_and_keep)
    return said[-1] if said else ""


def release(page: str, project: Path, find_links: str) -> str:
    """Type what a plan says that comes next, on a config that asks for what this walk builds."""
    config = project / "fatwheel.yml"
    text = config.read_text(encoding="utf-8")
    for asked, less in WALKS[page].get("with", {}).items():
        assert asked in text
        text = text.replace(asked, less.replace("$PIP_FIND_LINKS", find_links))
    config.write_text(text, encoding="utf-8")
    commit(project)
    return type_as_user(RELEASE, project)


# ---------------------------------------------------------------- pages of commands


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("made"))


@pytest.mark.long
@pytest.mark.parametrize("page", walked_by(COMMANDS))
def test_the_commands_of_a_page_are_typed(page: str, made: Path, tmp_path: Path) -> None:
    walk = WALKS[page]
    with open_world(made, tmp_path) as world:
        for number, line in enumerate(typed(page), 1):
            for earlier in walk.get("before", {}).get(str(number), ()):
                assert world.type(earlier).returncode == 0, earlier
            if not any(line.startswith(start) for start in walk.get("stops", {})):
                ran = world.type(line)
                expected = walk.get("status", {}).get(str(number), 0)
                assert (line, ran.returncode) == (line, expected), ran.stdout + ran.stderr
