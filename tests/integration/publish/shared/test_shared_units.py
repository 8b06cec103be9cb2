"""Machines that share compile units by a folder or a bucket: what one compiled, the next takes, if it is whole."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from zipfile import ZipFile

import pytest

from ci_tools.build.units.launchers import find_store
from ci_tools.errors import InputError, MachineError
from ci_tools.index.objects.store import Store
from ci_tools.model.plan import Plan
from ci_tools.publish import shared_units
from ci_tools.publish.shared_units import copy_units, list_files, open_place, share_units
from tests.builders.bucket_parts import Here
from tests.builders.releases import Words
from tests.builders.sources import world, write
from tests.builders.units import open_units

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")]

JOB = SimpleNamespace(name="linux-cpu-cp312", batch="")
PLAN = cast("Plan", SimpleNamespace(project=SimpleNamespace(name="demo"), jobs=(JOB,)))
PULL_REQUEST = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request"}


@pytest.fixture(params=[pytest.param("folder", marks=pytest.mark.long), "bucket"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return f"dir:{tmp_path}/place"
    here: Here = request.getfixturevalue("here")
    return here.target()


class Machine:
    """A machine with a store of its own, which builds at the path of all."""

    def __init__(self, name: str, address: str, tmp_path: Path, **environ: str) -> None:
        self.words, self.scratch = Words(), tmp_path / "build"
        self.outside = replace(world(tmp_path / name, FATWHEEL_UNITS=address, **environ), reporter=self.words)

    @property
    def place(self) -> Store:
        return open_place(self.outside.environ["FATWHEEL_UNITS"], self.outside)

    def build(self, **sources: str) -> list[str]:
        """Compile each source, and return where the objects are from."""
        with share_units(PLAN, [JOB.name], self.outside), open_units(self.scratch, find_store(self.outside)) as units:
            write(units.folder, {f"{name}.cpp": text for name, text in sources.items()})
            time.sleep(0.02)
            return [units.compile("g++", f"{name}.cpp")[1] for name in sources]


ONE, TWO = {"a": "int f() { return 1; }\n"}, {"b": "int g() { return 2; }\n"}


def test_the_next_machine_takes_what_the_first_compiled(address: str, tmp_path: Path) -> None:
    assert Machine("first", address, tmp_path).build(**ONE) == ["compiled"]
    second = Machine("second", address, tmp_path)
    assert second.build(**ONE, **TWO) == ["unchanged", "compiled"]
    assert Machine("third", address, tmp_path).build(**ONE, **TWO) == ["unchanged", "unchanged"]
    assert second.words.lines == []


def cut(content: bytes) -> bytes:
    return content[:-40]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes(byte ^ 1 for byte in content[middle : middle + 400]) + content[middle + 400 :]


def empty(content: bytes) -> bytes:
    return content[:0]


@pytest.mark.parametrize(
    "harm", [cut, pytest.param(flip, marks=pytest.mark.long), pytest.param(empty, marks=pytest.mark.long)]
)
def test_a_harmed_file_is_said_and_what_it_lacks_is_compiled(harm: Callable[[bytes], bytes], tmp_path: Path) -> None:
    Machine("first", f"dir:{tmp_path}/place", tmp_path).build(**ONE)
    (file,) = (tmp_path / "place").glob("demo/*.units")
    file.write_bytes(harm(file.read_bytes()))
    second = Machine("second", f"dir:{tmp_path}/place", tmp_path)
    assert second.build(**ONE) == ["compiled"]
    assert "damaged, and left out" in second.words.lines[0]


def test_a_pull_request_takes_and_leaves_nothing(address: str, tmp_path: Path) -> None:
    Machine("first", address, tmp_path).build(**ONE)
    proposed = Machine("second", address, tmp_path, **PULL_REQUEST)
    assert proposed.build(**ONE, **TWO) == ["unchanged", "compiled"]
    assert Machine("third", address, tmp_path).build(**ONE, **TWO) == ["unchanged", "compiled"]


@pytest.mark.long
def test_a_place_has_a_bounded_number_of_files(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine("first", address, tmp_path)
    for number in range(4):
        machine.build(a=f"int f() {{ return {number}; }}\n")
    assert len(list_files(machine.place, "demo")) == 1
    monkeypatch.setattr(shared_units, "SIZE", 1)
    machine.build(a="int f() { return 9; }\n")
    assert list_files(machine.place, "demo") == []


@pytest.mark.long
def test_only_what_a_build_used_is_kept(tmp_path: Path) -> None:
    machine = Machine("first", f"dir:{tmp_path}/place", tmp_path)
    machine.build(**ONE)
    time.sleep(1)
    machine.build(**TWO)
    listed = [ZipFile(file).namelist() for file in (tmp_path / "place").glob("demo/*.units")]
    assert [sum(name.startswith("objects/") for name in names) for names in listed] == [1]


def test_a_place_that_fails_is_said_and_everything_is_compiled(tmp_path: Path) -> None:
    write(tmp_path / "place", {"demo": "a file"})
    machine = Machine("first", f"dir:{tmp_path}/place", tmp_path)
    assert machine.build(**ONE) == ["compiled"]
    assert "FATWHEEL_UNITS: nothing is kept" in machine.words.lines[-1]


@pytest.mark.long
def test_files_are_copied_between_places_only_if_they_are_whole(address: str, tmp_path: Path) -> None:
    machine = Machine("first", f"dir:{tmp_path}/own", tmp_path)
    machine.build(**ONE)
    shared = open_place(address, machine.outside)
    assert [copy_units("demo", machine.place, shared) for _ in range(2)] == [1, 0]
    assert Machine("second", address, tmp_path).build(**ONE) == ["unchanged"]
    (file,) = (tmp_path / "own").glob("demo/*.units")
    file.write_bytes(flip(file.read_bytes()))
    with pytest.raises(MachineError, match="is damaged: its content is not that of its name"):
        copy_units("demo", machine.place, open_place(f"dir:{tmp_path}/other", machine.outside))


@pytest.mark.parametrize("word", ["/units", "https://example.org/units", "dir:"])
def test_another_place_is_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected"):
        Machine("first", word, tmp_path).build(**ONE)
