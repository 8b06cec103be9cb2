"""A copy of a repository has what act can run of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workflows import harness, repositories
from tests.workflows.harness import Event

pytestmark = pytest.mark.slow


def test_our_own_repository_is_copied_with_its_workflows(tmp_path: Path) -> None:
    mine = repositories.copy_ours(
        tmp_path / "ours", files={".github/workflows/extra.yml": "name: Extra\non: push\njobs: {}\n"}
    )
    assert (mine.folder / "pyproject.toml").is_file()
    assert mine.files.keys() >= {".github/workflows/extra.yml"}
    assert "$/" not in "".join(path.read_text() for path in (mine.folder / ".github").rglob("*.yml"))


@pytest.mark.parametrize(
    ("line", "left"),
    [
        pytest.param("  queue: max # none is dropped\n", "\n", id="a-line-of-its-own"),
        pytest.param("concurrency: { group: x, queue: max }\n", "concurrency: { group: x }\n", id="the-last"),
        pytest.param("concurrency: { queue: max, group: x }\n", "concurrency: { group: x }\n", id="the-first"),
        pytest.param("      run: echo queue: max\n", "      run: echo queue: max\n", id="words-of-a-command"),
    ],
)
def test_a_queue_is_left_out_as_act_knows_none(line: str, left: str) -> None:
    assert repositories.QUEUE.sub("", line) == left


def test_what_waits_in_a_queue_is_run(tmp_path: Path) -> None:
    text = "name: Main\non: push\nconcurrency: { group: x, queue: max }\njobs:\n  it:\n    name: It\n"
    text += (
        "    runs-on: ubuntu-latest\n    concurrency:\n      group: y\n      queue: max\n    steps: [{ run: 'true' }]\n"
    )
    mine = repositories.make_repository(tmp_path / "mine", name="me/mine", files={".github/workflows/main.yml": text})
    assert harness.run("main.yml", Event.push(), tmp_path / "run", mine).succeeded
