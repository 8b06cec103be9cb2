from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.errors import InputError, Rejected
from ci_tools.index import maintain
from ci_tools.index.ledger import Ledger
from ci_tools.index.units import NOT_TRIED, Offer
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from ci_tools.model.request import Channel, Edition
from ci_tools.publish.promotion import promote
from tests.builders import releases
from tests.builders.indexes import CUDA, PURE, SDIST, entry, rewrite, root
from tests.builders.releases import folder_index, item, unit
from tests.builders.wheels import edited, hexdigest, listed, make


def test_a_promoted_release_is_the_very_bytes(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    target = folder_index(tmp_path / "stable")
    shown = promote(index, [target], "demo==1.0", outside)
    assert sorted(file.file for file in shown[0].files) == [CUDA, PURE, SDIST]
    for key in (f"cu130/{CUDA}", PURE, SDIST):
        assert hexdigest(root(target) / key) == hexdigest(root(index) / key)
    assert listed(root(target), "cu132") == [PURE, SDIST, CUDA]
    assert maintain.verify(target, outside) == ()
    assert [file.new for file in promote(index, [target], "demo==1.0", outside)[0].files] == [False] * 3


def test_what_an_entry_says_of_its_wheel_is_promoted_too(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    target = folder_index(tmp_path / "stable")
    promote(index, [target], "demo==1.0", outside)
    entries = [entry(one, CUDA) for one in (index, target)]
    assert {**entries[0], "uploaded": ""} == {**entries[1], "uploaded": ""}


def test_a_promoted_wheel_is_as_tried_as_it_was(tmp_path: Path, outside: Outside) -> None:
    index, target = folder_index(tmp_path / "index"), folder_index(tmp_path / "stable")
    wheel = item(make(tmp_path, CUDA), "cu130")._replace(gpu=NOT_TRIED)
    releases.publish(index, unit("demo", wheel))
    promote(index, [target], "demo==1.0", outside)
    assert entry(target, CUDA)["gpu"] == NOT_TRIED


def test_a_damaged_file_is_not_promoted(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    (root(index) / f"cu130/{CUDA}").write_bytes(b"other")
    with pytest.raises(Rejected, match=r"has the sha256 .*, expected") as refused:
        promote(index, [folder_index(tmp_path / "stable")], "demo==1.0", outside)
    assert "index repair" in refused.value.hint
    assert not (tmp_path / "stable").exists()


def test_what_the_target_has_with_other_bytes_is_not_promoted(
    index: WheelIndex, tmp_path: Path, outside: Outside
) -> None:
    target = folder_index(tmp_path / "stable")
    releases.publish(target, unit("demo", item(edited(make(tmp_path, PURE), {"demo/new.py": b""}))))
    with pytest.raises(InputError, match="already with other bytes"):
        promote(index, [target], "demo==1.0", outside)


def test_files_of_several_candidates_are_not_promoted(tmp_path: Path, outside: Outside) -> None:
    stable, wheels = folder_index(tmp_path / "index"), [item(make(tmp_path, PURE)), item(make(tmp_path, CUDA), "cu130")]
    releases.publish(stable, unit("demo", *wheels, edition=Edition(Channel.TEST, 2)))
    source = folder_index(tmp_path / "index/test")
    path = root(source) / ".fatwheel/projects/demo.json"
    rewrite(path, '"candidate": 2', '"candidate": 1')
    with pytest.raises(InputError, match=r"is of candidate 1, and others are of candidate 2"):
        promote(source, [stable], "demo==1.0", outside)
    assert not (root(stable) / PURE).exists()


def test_a_release_is_promoted_with_what_it_has_for_every_combination(
    index: WheelIndex, tmp_path: Path, outside: Outside
) -> None:
    offer = Offer("linux-cuda", "cu130", "2.10", "3.12", CUDA, "")
    release = unit("more", item(make(tmp_path, "more-1.0-py3-none-any.whl")))
    releases.publish(index, replace(release, offers=(offer,)))
    target = folder_index(tmp_path / "stable")
    promote(index, [target], "more==1.0.0", outside)
    ledger = Ledger(target.store, "")
    assert ledger.offers("more", ledger.manifest("more").offers["1.0"]) == (offer,)


def test_a_yanked_release_is_not_promoted(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    maintain.yank(index, "demo==1.0", "bad")
    with pytest.raises(InputError, match=r"is yanked in dir:.*, expected a release that is not"):
        promote(index, [folder_index(tmp_path / "stable")], "demo==1.0", outside)


def test_a_release_is_not_promoted_to_where_it_is(index: WheelIndex, outside: Outside) -> None:
    with pytest.raises(InputError, match="has the release already, expected another index"):
        promote(index, [folder_index(root(index))], "demo==1.0", outside)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("demo==1.0.dev20261121", r"demo 1\.0\.dev20261121 is a nightly, expected a release or a candidate"),
        ("demo==1.0+cu130", r"is a part of a release, expected demo==1\.0"),
        (CUDA, r"is a part of a release, expected demo==1\.0"),
    ],
)
def test_what_is_no_whole_release_is_not_promoted(
    name: str, said: str, index: WheelIndex, tmp_path: Path, outside: Outside
) -> None:
    with pytest.raises(InputError, match=said):
        promote(index, [folder_index(tmp_path / "stable")], name, outside)


def test_a_release_of_which_a_file_is_lost_is_not_promoted(index: WheelIndex, tmp_path: Path, outside: Outside) -> None:
    (root(index) / f"cu130/{CUDA}").unlink()
    maintain.repair(index, outside)
    with pytest.raises(InputError, match="is not in dir:"):
        promote(index, [folder_index(tmp_path / "stable")], "demo==1.0", outside)
