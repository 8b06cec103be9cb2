from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ci_tools import upkeep
from ci_tools.errors import InputError, MachineError, Rejected
from ci_tools.outside import Outside, Silent
from tests import releases
from tests.releases import folder_index, item, unit
from tests.wheels import broken, edited, hexdigest, listed, make

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.targets.wheelindex import WheelIndex

PURE, CUDA, SDIST = "demo-1.0-py3-none-any.whl", "demo-1.0+cu130-py3-none-any.whl", "demo-1.0.tar.gz"
LATER = "demo-1.1-py3-none-any.whl"


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(environ=os.environ, cache=tmp_path / "cache", reporter=Silent())


@pytest.fixture
def index(tmp_path: Path) -> WheelIndex:
    """An index with two versions of a project, and another project."""
    made = tmp_path / "made"
    made.mkdir()
    (made / SDIST).write_bytes(b"sdist")
    built = folder_index(tmp_path / "index")
    files = [item(make(made, PURE)), item(make(made, CUDA), "cu130", ("cu132",)), item(made / SDIST)]
    releases.publish(built, unit("demo", *files))
    releases.publish(built, unit("demo", item(make(made, LATER)), version="1.1"))
    releases.publish(built, unit("other", item(make(made, "other-1.0-py3-none-any.whl"))))
    return built


def root(index: WheelIndex) -> Path:
    return index.store.root  # type: ignore[attr-defined,no-any-return]


def found(index: WheelIndex, outside: Outside) -> list[tuple[str, str]]:
    return [(flaw.key, flaw.what) for flaw in upkeep.verify(index, outside)]


# ---------------------------------------------------------------- read again, and mended


def test_a_good_index_has_no_flaw_and_nothing_to_mend(index: WheelIndex, outside: Outside) -> None:
    before = {path: path.stat().st_mtime_ns for path in root(index).rglob("*.html")}
    assert upkeep.verify(index, outside) == ()
    assert upkeep.repair(index, outside) == ()
    assert {path: path.stat().st_mtime_ns for path in root(index).rglob("*.html")} == before


@pytest.mark.parametrize(
    ("key", "data", "what", "done"),
    [
        pytest.param(f"cu130/{CUDA}", None, upkeep.GONE, "not listed any more", id="a-wheel-is-gone"),
        pytest.param(f"cu130/{CUDA}", b"other", upkeep.DAMAGED, "not listed any more", id="a-wheel-has-other-bytes"),
        pytest.param(SDIST, b"other", upkeep.DAMAGED, "not listed any more", id="an-sdist-has-other-bytes"),
        pytest.param(f"{PURE}.metadata", None, upkeep.NO_METADATA, "written again", id="metadata-is-gone"),
        pytest.param(f"{PURE}.metadata", b"other", upkeep.NO_METADATA, "written again", id="metadata-has-other-bytes"),
        pytest.param("cu132/demo/index.html", None, upkeep.STALE, "written again", id="a-page-is-gone"),
        pytest.param("demo/index.json", b"{}", upkeep.STALE, "written again", id="a-page-has-other-bytes"),
        pytest.param("cpu/index.html", b"other", upkeep.STALE, "written again", id="a-front-page-has-other-bytes"),
        pytest.param("notes.txt", b"other", upkeep.UNLISTED, "removed", id="a-file-that-nobody-lists"),
    ],
)
def test_each_flaw_is_found_and_mended(
    key: str, data: bytes | None, what: str, done: str, index: WheelIndex, outside: Outside
) -> None:
    path = root(index) / key
    path.unlink() if data is None else path.write_bytes(data)
    assert found(index, outside) == [(key, what)]
    mended = upkeep.repair(index, outside, remove_unlisted=True)
    assert [(flaw.key, flaw.what, flaw.done) for flaw in mended] == [(key, what, done)]
    upkeep.repair(index, outside, remove_unlisted=True)  # what is listed no longer lies there still
    assert found(index, outside) == []
    assert broken(root(index)) == []


def test_what_no_page_lists_stays_unless_it_is_asked_for(index: WheelIndex, outside: Outside) -> None:
    (root(index) / LATER.replace("1.1", "1.2")).write_bytes(b"on its way")
    assert [flaw.done for flaw in upkeep.repair(index, outside)] == ["left: --remove-unlisted removes it"]
    assert (root(index) / LATER.replace("1.1", "1.2")).exists()


def test_every_flaw_is_mended_at_once(index: WheelIndex, outside: Outside) -> None:
    (root(index) / f"cu130/{CUDA}").unlink()
    (root(index) / f"{PURE}.metadata").unlink()
    (root(index) / "other/index.html").write_bytes(b"other")
    assert len(upkeep.repair(index, outside)) == 3
    assert [what for _, what in found(index, outside)] == [upkeep.UNLISTED]  # the METADATA of the wheel that is gone
    assert listed(root(index), "cu130") == [PURE, SDIST, LATER]


def test_a_project_that_the_directory_forgot_is_listed_again(index: WheelIndex, outside: Outside) -> None:
    path = root(index) / ".fatwheel/index.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "projects": ["demo"]}))
    assert found(index, outside) != []
    upkeep.repair(index, outside)
    assert "other" in (root(index) / "cpu/index.html").read_text()
    assert found(index, outside) == []


@pytest.mark.parametrize("name", ["index", "projects/demo"])
def test_what_the_pages_are_made_from_cannot_be_made_again(name: str, index: WheelIndex, outside: Outside) -> None:
    (root(index) / f".fatwheel/{name}.json").write_text("[]")
    with pytest.raises(MachineError, match="which the pages are made from, is damaged") as refused:
        upkeep.repair(index, outside)
    assert refused.value.hint.startswith("restore it")


def test_an_index_s_channels_are_read_by_their_own_address(tmp_path: Path, outside: Outside) -> None:
    from ci_tools.model import Channel, Edition  # noqa: PLC0415 - this test alone

    stable = folder_index(tmp_path / "index")
    releases.publish(stable, unit("demo", item(make(tmp_path, PURE)), edition=Edition(Channel.TEST, 1)))
    assert upkeep.verify(folder_index(tmp_path / "index/test"), outside) == ()


# ---------------------------------------------------------------- yanked


def test_a_release_is_yanked_and_comes_back(index: WheelIndex, outside: Outside) -> None:
    page = root(index) / "cu130/demo/index.html"
    whole = page.read_bytes()
    assert upkeep.yank(index, "demo==1.0", "<broken>") == (CUDA, PURE, SDIST)
    assert page.read_text().count('data-yanked="&lt;broken&gt;"') == 3
    assert found(index, outside) == []
    assert upkeep.yank(index, "Demo == 1.0", None) == (CUDA, PURE, SDIST)
    assert page.read_bytes() == whole


def test_a_yank_without_a_reason_is_one(index: WheelIndex) -> None:
    upkeep.yank(index, "demo==1.1", "")
    document = json.loads((root(index) / "demo/index.json").read_text())
    assert [file["filename"] for file in document["files"] if file["yanked"] is True] == [LATER]


def test_a_yanked_release_that_is_published_again_stays_yanked(index: WheelIndex, tmp_path: Path) -> None:
    upkeep.yank(index, "demo==1.1", "bad")
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
        "demo==1.0+cu130",
        "==1",
        "",
    ],
)
def test_what_is_no_release_is_said_to_be_none(text: str, index: WheelIndex) -> None:
    with pytest.raises(InputError, match=r"is no release, expected one such as demo==1\.0"):
        upkeep.yank(index, text, "bad")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("demo==1.2", r"the index has no demo 1\.2, did you mean"), ("nothing==1.0", "no nothing 1.0, it has none of it")],
)
def test_what_the_index_has_not_is_said(text: str, sentence: str, index: WheelIndex) -> None:
    before = sorted(root(index).rglob("*.json"))
    with pytest.raises(InputError, match=sentence):
        upkeep.yank(index, text, "bad")
    assert sorted(root(index).rglob("*.json")) == before


# ---------------------------------------------------------------- promoted


def test_a_promoted_release_is_the_very_bytes(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    target = folder_index(tmp_path / "stable")
    shown = upkeep.promote(index, [target], "demo==1.0", outside)
    assert sorted(file.file for file in shown[0].files) == [CUDA, PURE, SDIST]
    for key in (f"cu130/{CUDA}", PURE, SDIST):
        assert hexdigest(root(target) / key) == hexdigest(root(index) / key)
    assert listed(root(target), "cu132") == [PURE, SDIST, CUDA]
    assert upkeep.verify(target, outside) == ()
    assert [file.new for file in upkeep.promote(index, [target], "demo==1.0", outside)[0].files] == [False] * 3


def test_what_an_entry_says_of_its_wheel_is_promoted_too(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    target = folder_index(tmp_path / "stable")
    upkeep.promote(index, [target], "demo==1.0", outside)
    entries: list[dict[str, Any]] = [
        next(
            file
            for file in json.loads((root(one) / ".fatwheel/projects/demo.json").read_text())["files"]
            if file["name"] == CUDA
        )
        for one in (index, target)
    ]
    assert {**entries[0], "uploaded": ""} == {**entries[1], "uploaded": ""}


def test_a_damaged_file_is_not_promoted(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    (root(index) / f"cu130/{CUDA}").write_bytes(b"other")
    with pytest.raises(Rejected, match=r"has the sha256 .*, expected") as refused:
        upkeep.promote(index, [folder_index(tmp_path / "stable")], "demo==1.0", outside)
    assert "index repair" in refused.value.hint
    assert not (tmp_path / "stable").exists()


def test_what_the_target_has_with_other_bytes_is_not_promoted(
    index: WheelIndex, tmp_path: Path, outside: Outside
) -> None:
    target = folder_index(tmp_path / "stable")
    releases.publish(target, unit("demo", item(edited(make(tmp_path, PURE), {"demo/new.py": b""}))))
    with pytest.raises(InputError, match="already with other bytes"):
        upkeep.promote(index, [target], "demo==1.0", outside)
