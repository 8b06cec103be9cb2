from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.index import maintain
from ci_tools.index.objects.store import Content, FolderStore, Found
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside, Silent
from tests.builders.indexes import CUDA, LATER, PURE, STRAY, entry, found, leave, root
from tests.builders.wheels import listed

MANIFEST = ".fatwheel/projects/demo.json"


def break_all(index: WheelIndex) -> dict[str, bytes | None]:
    """Give an index a flaw of each kind, and return what is no page of ours."""
    leave(index, STRAY)
    (root(index) / f"cu130/{CUDA}").unlink()
    (root(index) / LATER).write_bytes(b"damaged")
    (root(index) / f"{PURE}.metadata").write_bytes(b"other")
    (root(index) / "cpu/demo/index.html").write_text('<a href="demo-0.9.tar.gz">demo-0.9.tar.gz</a>')
    (root(index) / ".fatwheel/projects/other.json").write_text("[]")
    return state(index)


def state(index: WheelIndex) -> dict[str, bytes | None]:
    names = (STRAY, f"cu130/{CUDA}", LATER, f"{PURE}.metadata", "cpu/demo/index.html", ".fatwheel/projects/other.json")
    paths = {name: root(index) / name for name in names}
    return {name: path.read_bytes() if path.exists() else None for name, path in paths.items()}


def entries(index: WheelIndex) -> list[object]:
    files: list[object] = json.loads((root(index) / MANIFEST).read_text())["files"]
    return files


@pytest.mark.slow
def test_what_a_repair_changed_is_put_back(index: WheelIndex, outside: Outside) -> None:
    before, files = break_all(index), entries(index)
    flaws = found(index, outside)
    maintain.repair(index, outside, remove_unlisted=True)
    assert state(index) != before
    back = maintain.undo_repair(index, outside)
    assert {flaw.done for flaw in back} == {"put back"}
    assert (state(index), entries(index)) == (before, files)
    assert found(index, outside) == flaws
    assert not list((root(index) / ".fatwheel").rglob("undo*"))


@pytest.mark.slow
def test_what_has_changed_since_is_left(index: WheelIndex, outside: Outside) -> None:
    break_all(index)
    maintain.repair(index, outside, remove_unlisted=True)
    maintain.yank(index, CUDA, "lost")
    (root(index) / STRAY).write_bytes(b"mine")
    left = [flaw.key for flaw in maintain.undo_repair(index, outside) if flaw.is_left]
    assert left == [f"cu130/{CUDA}", STRAY]
    assert (entry(index, CUDA)["lost"], entry(index, CUDA)["yanked"]) == ("gone", "lost")
    assert (root(index) / STRAY).read_bytes() == b"mine"
    assert LATER in listed(root(index), "cu130")


@pytest.mark.slow
def test_metadata_that_was_not_there_is_removed_again(index: WheelIndex, outside: Outside) -> None:
    (root(index) / f"{PURE}.metadata").unlink()
    maintain.repair(index, outside)
    assert [flaw.done for flaw in maintain.undo_repair(index, outside)] == ["removed again"]
    assert not (root(index) / f"{PURE}.metadata").exists()


@pytest.mark.slow
def test_a_repair_that_changes_nothing_of_others_leaves_the_record_of_the_last(
    index: WheelIndex, outside: Outside
) -> None:
    (root(index) / f"cu130/{CUDA}").unlink()
    maintain.repair(index, outside)
    (root(index) / "demo/index.html").unlink()
    maintain.repair(index, outside)
    assert [flaw.key for flaw in maintain.undo_repair(index, outside)] == [f"cu130/{CUDA}"]


@pytest.mark.slow
def test_the_next_repair_that_changes_something_forgets_the_last(index: WheelIndex, outside: Outside) -> None:
    leave(index, STRAY)
    maintain.repair(index, outside, remove_unlisted=True)
    (root(index) / f"{PURE}.metadata").write_bytes(b"other")
    maintain.repair(index, outside)
    assert [flaw.key for flaw in maintain.undo_repair(index, outside)] == [f"{PURE}.metadata"]
    assert not (root(index) / STRAY).exists()


@pytest.mark.slow
def test_where_nothing_was_changed_there_is_nothing_to_undo(index: WheelIndex, outside: Outside) -> None:
    with pytest.raises(InputError, match="there is no repair of dir:"):
        maintain.undo_repair(index, outside)


@pytest.mark.slow
def test_a_damaged_record_is_no_record(index: WheelIndex, outside: Outside) -> None:
    (root(index) / ".fatwheel/undo.json").write_text('{"done": true}')
    with pytest.raises(InputError, match="which says what the last repair changed, is damaged"):
        maintain.undo_repair(index, outside)
    (root(index) / f"cu130/{CUDA}").unlink()
    maintain.repair(index, outside)
    assert [flaw.done for flaw in maintain.undo_repair(index, outside)] == ["put back"]


# ---------------------------------------------------------------- killed at every write


class Killed(BaseException):
    """What nothing catches."""


class Mortal(FolderStore):
    """A folder whose writer is killed before one of its writes."""

    def __init__(self, root: Path, writes: int) -> None:
        super().__init__(root, Silent())
        self.left = writes

    def _write(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content at a key, or die."""
        self._write()
        return super().put(key, content, instead_of=instead_of, generation=generation)

    def remove(self, key: str) -> None:
        """Remove what is at a key, or die."""
        self._write()
        super().remove(key)


def repaired(index: WheelIndex, outside: Outside, writes: int) -> int:
    """Return how many writes are left to a repair, which may be killed for want of one."""
    store = Mortal(root(index), writes)
    maintain.repair(WheelIndex(store, order=0), outside, remove_unlisted=True)
    return store.left


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_repair_killed_at_any_write_is_run_again_and_undone_whole(
    seed: int, index: WheelIndex, outside: Outside
) -> None:
    before, files = break_all(index), entries(index)
    chance = random.Random(seed)  # noqa: S311 - it decides no secret
    for _ in range(6):
        with suppress(Killed):
            repaired(index, outside, chance.randrange(12))
        assert PURE in listed(root(index), "cu130")
    assert repaired(index, outside, 1000) > 0
    assert {key for key, _ in found(index, outside)} == {f"cu130/{CUDA}", LATER}
    for writes in (1, 4, 9):
        with pytest.raises(Killed):
            maintain.undo_repair(WheelIndex(Mortal(root(index), writes), order=0), outside)
    maintain.undo_repair(index, outside)
    assert (state(index), entries(index)) == (before, files)
