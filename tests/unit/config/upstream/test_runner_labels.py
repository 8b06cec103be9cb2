"""`fatwheel catalog update` reads GitHub's list of runners, here from a server on this machine."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.catalog import tables
from ci_tools.config import loader
from ci_tools.config.upstream.catalog_update import find_new_labels
from ci_tools.doctor.rules.runners import check_labels
from ci_tools.doctor.workflow_set import read_set
from ci_tools.errors import MachineError
from tests.builders.sources import demo
from tests.servers.framing import FolderHandler, Server
from tests.servers.threads import serve

NAME = "fatwheel.catalog.toml"
LABELS = tables.read("runners")["labels"]
HEAD = "## Available Images\n\n| Image | Architecture | YAML Label | Software |\n| ---- | ---- | ---- | ---- |\n"
WORKFLOW = "on: push\njobs: {{ a: {{ runs-on: {}, steps: [{{ run: x }}] }} }}"


@contextmanager
def listed(folder: Path, labels: list[str]) -> Iterator[str]:
    """Serve a list of runners in the form of GitHub's, and yield its address."""
    rows = "".join(f"| An image<br>| x64 | `{label}` or `{label}` | [readme] |\n" for label in labels)
    (folder / "README.md").write_text(f"{HEAD}{rows}\n- Elsewhere `ubuntu-0.0` is no label.\n", encoding="utf-8")
    handler = functools.partial(FolderHandler, directory=str(folder))
    with serve(Server(handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}/README.md"


@pytest.mark.parametrize(
    ("labels", "lines"),
    [
        pytest.param(LABELS, [], id="nothing-new"),
        pytest.param([*LABELS, "ubuntu-28.04"], ["runner ubuntu-28.04"], id="a-new-one"),
        pytest.param([*LABELS, "macos-14"], [], id="one-that-leaves"),
        pytest.param(LABELS[1:], [f"runner {LABELS[0]}, which GitHub lists no more"], id="one-that-is-gone"),
        pytest.param([], [], id="a-page-of-another-form"),
    ],
)
def test_what_github_lists_is_compared_with_the_catalog(labels: list[str], lines: list[str], tmp_path: Path) -> None:
    with listed(tmp_path, labels) as url:
        assert list(find_new_labels(url, "", NAME).describe()) == lines


def test_the_file_of_a_project_gets_the_labels_and_the_doctor_reads_them(tmp_path: Path) -> None:
    project = demo(tmp_path / "demo")
    mine = '# mine\n[python]\nreleases = ["3.99"]\n'
    with listed(tmp_path, [*LABELS[1:], "ubuntu-28.04"]) as url:
        text = find_new_labels(url, mine, NAME).write(mine, NAME)
        assert not any(find_new_labels(url, text, NAME))
    (project / NAME).write_text(text, encoding="utf-8")
    assert text.startswith(mine.rstrip())
    assert loader.load(project / "fatwheel.yml", catalog.load()).name
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    assert said("ubuntu-28.04", text) == []
    assert said(LABELS[0], text) == [f"a runs on {LABELS[0]}, which GitHub switched off on {today}"]


def said(label: str, text: str) -> list[str]:
    known = read_set({".github/workflows/a.yml": WORKFLOW.format(label)}, lambda _, path, __: {NAME: text}.get(path))
    return [one.what for file in known.workflows for one in check_labels(file, known)]


@pytest.mark.usefixtures("at_once")
def test_a_list_that_does_not_answer_is_said() -> None:
    with pytest.raises(MachineError, match="the list of runners"):
        find_new_labels("http://127.0.0.1:9/README.md", "", NAME)
