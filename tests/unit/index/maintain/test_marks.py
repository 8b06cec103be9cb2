from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.index import maintain
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from tests.builders import releases
from tests.builders.indexes import CUDA, LATER, PURE, SDIST, found, root
from tests.builders.releases import item, unit


def yanked(index: WheelIndex, folder: str = "cu130") -> list[str]:
    document = json.loads((root(index) / folder / "demo/index.json").read_text())
    return [file["filename"] for file in document["files"] if file["yanked"]]


def test_a_release_is_yanked_and_comes_back(index: WheelIndex, outside: Outside) -> None:
    page = root(index) / "cu130/demo/index.html"
    whole = page.read_bytes()
    assert maintain.yank(index, "demo==1.0", "<broken>") == (CUDA, PURE, SDIST)
    assert page.read_text().count('data-yanked="&lt;broken&gt;"') == 3
    assert found(index, outside) == []
    assert maintain.yank(index, "Demo == 1.0", None) == (CUDA, PURE, SDIST)
    assert page.read_bytes() == whole


def test_a_yank_without_a_reason_is_one(index: WheelIndex) -> None:
    maintain.yank(index, "demo==1.1", "")
    document = json.loads((root(index) / "demo/index.json").read_text())
    assert [file["filename"] for file in document["files"] if file["yanked"] is True] == [LATER]


def test_a_yanked_release_that_is_published_again_stays_yanked(index: WheelIndex, tmp_path: Path) -> None:
    maintain.yank(index, "demo==1.1", "bad")
    releases.publish(index, unit("demo", item(tmp_path / "made" / LATER), version="1.1"))
    assert "data-yanked" in (root(index) / "demo/index.html").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "demo",
        "demo>=1.0",
        "demo==1.*",
        "demo===1.0",
        "demo==1.0,==1.0",
        "demo[x]==1.0",
        "demo @ file:///x",
        'demo==1.0; python_version<"3"',
        "==1",
        "",
    ],
)
def test_what_is_no_release_is_said_to_be_none(text: str, index: WheelIndex) -> None:
    with pytest.raises(InputError, match=r"is not a release, expected one such as demo==1\.0"):
        maintain.yank(index, text, "bad")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("demo==1.2", r"the index has no demo 1\.2, known: 1\.0, 1\.1"),
        ("demo==1.0+cu132", r"the index has no demo 1\.0\+cu132, did you mean \"1\.0\+cu130\""),
        (CUDA.replace("cu130", "cu131"), r"the index has no demo-1\.0\+cu131.*, did you mean \"demo-1\.0\+cu130"),
        ("nothing==1.0", "no nothing 1.0, nor any of its files"),
    ],
)
def test_what_the_index_has_not_is_said(text: str, sentence: str, index: WheelIndex) -> None:
    before = sorted(root(index).rglob("*.json"))
    with pytest.raises(InputError, match=sentence):
        maintain.yank(index, text, "bad")
    assert sorted(root(index).rglob("*.json")) == before


@pytest.mark.parametrize("reason", ["caf\udce9", "\x1b[31m", "two\nlines", "\x00"])
def test_a_reason_that_no_page_can_show_is_refused(reason: str, index: WheelIndex, outside: Outside) -> None:
    with pytest.raises(InputError, match="expected UTF-8 text without control characters") as refused:
        maintain.yank(index, "demo==1.0", reason)
    assert refused.value.message.isprintable()
    assert found(index, outside) == []


@pytest.mark.parametrize(
    "name",
    [pytest.param("demo==1.0+cu130", id="a-local-version"), pytest.param(CUDA, id="a-file"), "Demo == 1.0+CU130"],
)
def test_a_part_of_a_release_is_yanked_and_comes_back(name: str, index: WheelIndex, outside: Outside) -> None:
    assert maintain.yank(index, name, "bad") == (CUDA,)
    assert (yanked(index), yanked(index, "cu132"), yanked(index, "cpu")) == ([CUDA], [CUDA], [])
    assert found(index, outside) == []
    assert maintain.yank(index, name, None) == (CUDA,)
    assert yanked(index) == []


def test_the_pure_wheel_alone_is_yanked_by_its_name_and_the_release_by_its_version(index: WheelIndex) -> None:
    assert maintain.yank(index, PURE, "bad") == (PURE,)
    assert maintain.yank(index, SDIST, "bad") == (SDIST,)
    assert yanked(index) == [PURE, SDIST]
    assert maintain.yank(index, "demo==1.0", None) == (CUDA, PURE, SDIST)
