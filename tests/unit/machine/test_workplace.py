from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from ci_tools.errors import MachineError
from ci_tools.machine.workplace import MEMORY, find_memory, own_folder, workplace


def test_a_workplace_is_the_user_s_own_and_does_not_stay(tmp_path: Path) -> None:
    parent = own_folder(tmp_path)
    with workplace(parent) as folder:
        (folder / "env").mkdir()
    assert parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in parent.iterdir() if path.name != "sweep"] == []


def test_what_a_killed_run_left_is_swept_and_what_is_in_use_stays(tmp_path: Path) -> None:
    for name in ("left", "used"):
        (tmp_path / name / "env").mkdir(parents=True)
        (tmp_path / f"{name}.lock").touch()
    with FileLock(tmp_path / "used.lock"), workplace(tmp_path):
        assert not (tmp_path / "left").exists()
        assert (tmp_path / "used" / "env").exists()


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_a_workplace_that_is_not_the_user_s_own_is_refused(mode: int, tmp_path: Path) -> None:
    own_folder(tmp_path).chmod(mode)
    with pytest.raises(MachineError, match="can be written to by other users"):
        own_folder(tmp_path)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_no_workplace(is_there: bool, tmp_path: Path) -> None:  # noqa: FBT001
    own = own_folder(tmp_path)
    own.rename(tmp_path / "elsewhere")
    own.symlink_to(tmp_path / ("elsewhere" if is_there else "nowhere"))
    with pytest.raises(MachineError, match="can be written to by other users"):
        own_folder(tmp_path)


def test_the_lock_of_a_folder_that_stays_is_kept_for_the_next_run(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left.lock").touch()
    with workplace(tmp_path, lambda _: None):
        assert (tmp_path / "left.lock").exists()
    with workplace(tmp_path):
        assert not (tmp_path / "left").exists()


def test_memory_is_used_for_what_fits_and_for_nothing_else() -> None:
    if not MEMORY.is_dir():
        pytest.skip("this system has no folder in memory")
    assert find_memory(1 << 60) is None
    found = find_memory(0)
    assert found is None or (found.parent == MEMORY and found.stat().st_mode & 0o077 == 0)
