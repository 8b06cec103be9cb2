"""An index and its mirror: one target with two places, which hold the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ci_tools import transaction
from ci_tools.errors import InputError, MachineError
from ci_tools.outside import Silent
from ci_tools.targets.addresses import indexes_of
from tests import releases
from tests.sources import world
from tests.wheels import make

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.release import Unit
    from ci_tools.targets.wheelindex import WheelIndex


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
        msg = "the network is gone"
        raise MachineError(msg)

    monkeypatch.setattr(places[1], "switch", fail)
    with pytest.raises(MachineError):
        publish(places, unit(tmp_path), tmp_path)
    monkeypatch.undo()
    with pytest.raises(InputError, match="cannot be finished without dir:"):
        publish(places[:1], unit(tmp_path), tmp_path)
    publish(places, unit(tmp_path), tmp_path)
    assert tree(tmp_path / "mirror").keys() == tree(tmp_path / "first").keys()
