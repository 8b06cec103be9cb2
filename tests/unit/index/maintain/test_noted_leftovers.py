from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.index import maintain
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain import look
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from tests.builders import releases
from tests.builders.indexes import CUDA, PURE, STRAY, found, leave, root
from tests.builders.releases import folder_index, item, unit
from tests.builders.wheels import make


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(STRAY, id="at-the-root"),
        pytest.param(f"cu130/{STRAY}", id="in-a-folder"),
        pytest.param(f"{'0a' * 8}/{STRAY}", id="apart"),
        pytest.param(f"cu132/{'0a' * 8}/{STRAY}.metadata", id="metadata-apart"),
        pytest.param("variants/demo-1.0-variants.json", id="a-document"),
    ],
)
def test_what_a_stopped_publisher_left_is_found_and_removed(key: str, index: WheelIndex, outside: Outside) -> None:
    path = leave(index, key)
    assert found(index, outside) == [(key, look.UNLISTED)]
    mended = maintain.repair(index, outside, remove_unlisted=True)
    assert [(flaw.key, flaw.done) for flaw in mended] == [(key, "removed")]
    assert not path.exists()
    assert found(index, outside) == []
    assert Ledger(index.store, "").read_staged_keys() == frozenset()


def test_metadata_beside_what_was_left_goes_with_it(index: WheelIndex, outside: Outside) -> None:
    path = leave(index, f"cu130/{STRAY}")
    beside = path.with_name(f"{STRAY}.metadata")
    beside.write_text("Name: demo")
    maintain.repair(index, outside, remove_unlisted=True)
    assert not path.exists()
    assert not beside.exists()


def test_what_no_page_lists_stays_unless_it_is_asked_for(index: WheelIndex, outside: Outside) -> None:
    path = leave(index, STRAY)
    assert [flaw.done for flaw in maintain.repair(index, outside)] == ["left: --remove-unlisted removes it"]
    assert path.exists()
    assert Ledger(index.store, "").read_staged_keys() == {STRAY}


@pytest.mark.parametrize(
    "key",
    [
        "thesis.txt",
        "thesis.tar.gz",
        "photos/demo-1.2.tar.gz",
        STRAY,
        f"{STRAY}.metadata",
        f"cu130/{STRAY}",
        f"cu999/{STRAY}",
        f"{'0a' * 8}/{STRAY}",
        "variants/demo-1.0-variants.json",
        "cu130/notes.html",
        "torch/index.html",
        ".fatwheel.json",
    ],
)
def test_what_nobody_noted_is_no_flaw_and_stays(key: str, index: WheelIndex, outside: Outside) -> None:
    path = root(index) / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")
    assert found(index, outside) == []
    (root(index) / "other/index.html").write_bytes(b"other")  # so that there is something to mend
    maintain.repair(index, outside, remove_unlisted=True)
    assert path.read_text() == "mine"


def test_what_lay_there_before_a_publisher_noted_its_place_stays(index: WheelIndex, outside: Outside) -> None:
    path = leave(index, STRAY, b"mine")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    assert found(index, outside) == []
    assert maintain.repair(index, outside, remove_unlisted=True) == ()
    assert path.read_bytes() == b"mine"


def test_a_publisher_that_met_other_people_s_file_leaves_only_its_own(
    index: WheelIndex, tmp_path: Path, outside: Outside
) -> None:
    path = root(index) / STRAY
    path.write_bytes(b"mine")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    stopped, release = folder_index(root(index)), unit("demo", item(make(tmp_path, STRAY)), version="1.2")
    stopped.check(release)
    stopped.stage(release)
    assert {flaw.key.partition("/")[2] for flaw in maintain.repair(index, outside, remove_unlisted=True)} == {
        STRAY,
        f"{STRAY}.metadata",
    }
    assert path.read_bytes() == b"mine"
    assert found(index, outside) == []
    assert Ledger(index.store, "").read_staged_keys() == frozenset()


def test_a_note_of_what_is_published_is_forgotten_and_its_files_stay(index: WheelIndex, outside: Outside) -> None:
    Ledger(index.store, "").note("demo", [f"cu130/{CUDA}", PURE, STRAY])
    assert found(index, outside) == []
    assert maintain.repair(index, outside) == ()
    assert len(Ledger(index.store, "").read_staged_keys()) == 3
    assert maintain.repair(index, outside, remove_unlisted=True) == ()
    assert Ledger(index.store, "").read_staged_keys() == frozenset()
    assert (root(index) / f"cu130/{CUDA}").exists()


def test_nothing_is_removed_while_a_manifest_cannot_be_read(index: WheelIndex, outside: Outside) -> None:
    path = leave(index, STRAY)
    for page in root(index).rglob("demo/index.*"):
        page.unlink()
    (root(index) / ".fatwheel/projects/demo.json").write_text("[]")
    maintain.repair(index, outside, remove_unlisted=True)
    assert path.exists()
    assert Ledger(index.store, "").read_staged_keys() == {STRAY}


@pytest.mark.parametrize("folder", ["mirror", "test"])
def test_another_index_below_is_left_alone(folder: str, index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    below = folder_index(root(index) / folder)
    releases.publish(below, unit("demo", item(make(tmp_path, PURE))))
    leave(below, STRAY)
    assert found(index, outside) == []
    (root(index) / "other/index.html").write_bytes(b"other")
    maintain.repair(index, outside, remove_unlisted=True)
    assert (root(below) / STRAY).exists()
