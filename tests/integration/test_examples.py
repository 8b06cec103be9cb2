"""The examples, done as they are written, and the front page, which shows parts of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ci_tools import __version__
from tests.builders.walkthroughs import ANY, REPOSITORY, assert_shown, commands, follow, read_blocks, type_quickly

DOCS = REPOSITORY / "docs"
EXAMPLES = sorted((DOCS / "examples").glob("*.md"))
RUN = [*EXAMPLES, DOCS / "tutorials" / "first-release.md"]  # pages whose steps a test does
BUILDS = "$ fatwheel release"
BUILT = [page for page in EXAMPLES if BUILDS in page.read_text(encoding="utf-8")]


def test_there_are_six_examples_and_one_is_built() -> None:
    assert len(EXAMPLES) == 6
    assert BUILT


@pytest.mark.slow
@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_an_example_is_planned_as_it_is_written(page: Path, tmp_path: Path) -> None:
    for block in read_blocks(page):
        if BUILDS not in block.text:
            follow(block, tmp_path, type_quickly)


@pytest.mark.slow
@pytest.mark.parametrize("page", BUILT, ids=lambda page: page.stem)
def test_an_example_is_released_as_it_is_written(page: Path, tmp_path: Path) -> None:
    assert os.environ["FATWHEEL_INSTALLER"] == "uv"
    for block in read_blocks(page):
        if "$ fatwheel plan" not in block.text:
            follow(block, tmp_path, type_quickly)


def blocks_of(pages: list[Path]) -> set[str]:
    return {block.text for page in pages for block in read_blocks(page)}


def test_the_front_page_shows_what_is_run() -> None:
    front = blocks_of([DOCS / "index.md"])
    assert front
    assert front - blocks_of([*RUN, DOCS / "how-to" / "get-fatwheel.md"]) == set()


def test_lines_that_a_page_lacks_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="is not what it prints"):
        assert_shown(["one", "two"], "one\n", tmp_path)
    with pytest.raises(AssertionError, match="more than the page shows"):
        assert_shown(["one"], "one\ntwo\n", tmp_path)
    assert_shown(["one", ANY], "one\ntwo\n", tmp_path)
    assert_shown([ANY, f"at /{ANY}/x (2.0 s)"], f"one\nat {tmp_path}/x (3.1 s)\n", tmp_path)


@pytest.mark.long
def test_the_toolkit_is_got_as_the_page_says(tmp_path: Path) -> None:
    page = DOCS / "how-to" / "get-fatwheel.md"
    first = next(block.text for block in read_blocks(page) if "git clone" in block.text)
    for command, _ in commands(first):
        words = command.replace("https://github.com/OWNER/fatwheel", f"{REPOSITORY} fatwheel").split()
        done = subprocess.run(words, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout == f"fatwheel {__version__}\n"
