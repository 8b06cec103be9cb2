"""An index and its mirror: one target with two places, which hold the same."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ci_tools.cli.main import main
from ci_tools.errors import InputError, MachineError
from ci_tools.index.maintain import yank
from ci_tools.index.maintain.mirrors import OTHERWISE, UNLIKE, copy_missing, differences
from ci_tools.index.units import Unit
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Silent
from ci_tools.publish import transaction
from ci_tools.publish.targets.addresses import indexes_of
from tests.builders import releases
from tests.builders.sources import world
from tests.builders.wheels import broken, listed, make


@pytest.fixture
def places(tmp_path: Path) -> tuple[WheelIndex, ...]:
    return indexes_of(f"dir:{tmp_path}/first|dir:{tmp_path}/mirror", world(tmp_path))


def unit(folder: Path, version: str = "1.0") -> Unit:
    wheel = make(folder / "made", f"demo-{version}-py3-none-any.whl")
    return releases.unit("demo", releases.item(wheel), version=version)


def publish(places: tuple[WheelIndex, ...], release: Unit, folder: Path) -> None:
    transaction.publish(release, places, folder / "journals", Silent())


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_both_places_get_the_same_bytes(places: tuple[WheelIndex, ...], tmp_path: Path) -> None:
    publish(places, unit(tmp_path), tmp_path)
    assert tree(tmp_path / "mirror") == tree(tmp_path / "first")


def test_a_mirror_that_comes_later_says_when_the_first_got_a_file(
    places: tuple[WheelIndex, ...], tmp_path: Path
) -> None:
    publish(places[:1], unit(tmp_path), tmp_path)
    time.sleep(1.1)  # the time of an upload is in seconds
    publish(places, unit(tmp_path), tmp_path)
    assert tree(tmp_path / "mirror") == tree(tmp_path / "first")


def test_what_one_place_cannot_take_goes_to_none(places: tuple[WheelIndex, ...], tmp_path: Path) -> None:
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "index.html").write_text("<a href='torch/'>torch</a>")
    with pytest.raises(InputError, match="has files that Fatwheel did not put there"):
        publish(places, unit(tmp_path), tmp_path)
    assert not (tmp_path / "first").exists()


def test_a_release_that_has_begun_in_one_place_is_finished_in_both(
    places: tuple[WheelIndex, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise MachineError("the network is gone")

    monkeypatch.setattr(places[1], "switch", fail)
    with pytest.raises(MachineError):
        publish(places, unit(tmp_path), tmp_path)
    monkeypatch.undo()
    with pytest.raises(InputError, match="cannot be finished without dir:"):
        publish(places[:1], unit(tmp_path), tmp_path)
    publish(places, unit(tmp_path), tmp_path)
    assert tree(tmp_path / "mirror").keys() == tree(tmp_path / "first").keys()


def test_a_mirror_that_lags_is_told_of_and_brought_up_to_date(
    places: tuple[WheelIndex, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    publish(places, unit(tmp_path), tmp_path)
    publish(places[:1], unit(tmp_path, "2.0"), tmp_path / "alone")
    target = f"dir:{tmp_path}/first|dir:{tmp_path}/mirror"
    assert main(["index", "verify", target]) == 1
    assert "the other copy of this index has the file" in " ".join(capsys.readouterr().out.split())
    assert main(["index", "repair", target]) == 0
    assert main(["index", "verify", target]) == 0
    assert broken(tmp_path / "mirror") == []
    assert listed(tmp_path / "mirror", "cpu") == listed(tmp_path / "first", "cpu")


def test_what_only_the_mirror_has_comes_back_to_the_first(places: tuple[WheelIndex, ...], tmp_path: Path) -> None:
    publish(places[1:], unit(tmp_path), tmp_path)
    publish(places[:1], unit(tmp_path, "2.0"), tmp_path / "alone")
    copy_missing(*places, world(tmp_path))
    assert listed(tmp_path / "mirror", "cpu") == listed(tmp_path / "first", "cpu")
    assert differences(*places) == ()


def test_a_yank_is_said_at_both_places(places: tuple[WheelIndex, ...], tmp_path: Path) -> None:
    publish(places, unit(tmp_path), tmp_path)
    target = f"dir:{tmp_path}/first|dir:{tmp_path}/mirror"
    assert main(["index", "yank", target, "demo==1.0", "--reason", "broken"]) == 0
    assert differences(*places) == ()
    yank(places[1], "demo==1.0", None)
    assert [flaw.what for flaw in differences(*places)] == [OTHERWISE]
    copy_missing(*places, world(tmp_path))
    assert differences(*places) == ()


def test_other_bytes_by_one_name_are_left_to_people(places: tuple[WheelIndex, ...], tmp_path: Path) -> None:
    publish(places[:1], unit(tmp_path / "one"), tmp_path / "one")
    wheel = make(tmp_path / "other", "demo-1.0-py3-none-any.whl", {"demo.py": b"other = 1\n"})
    publish(places[1:], releases.unit("demo", releases.item(wheel)), tmp_path / "two")
    assert [(flaw.what, flaw.is_left) for flaw in copy_missing(*places, world(tmp_path))] == [(UNLIKE, True)]
