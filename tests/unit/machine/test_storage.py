from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine.storage import cache_folder, fill_once, hold_lock, sha256_of, write_atomically

# ---------------------------------------------------------------- folders


def test_a_folder_is_filled_on_first_use_alone(tmp_path: Path) -> None:
    calls: list[Path] = []
    for _ in range(2):
        assert fill_once(tmp_path / "a" / "b", calls.append, print) == tmp_path / "a" / "b"
    assert calls == [tmp_path / "a" / "b.partial"]


def test_a_fill_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        fill_once(tmp_path / "a", fail, print)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_a_free_lock_says_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    for _ in range(2):
        with hold_lock(tmp_path / "deep" / "a", lines.append):
            pass
    assert lines == []


# ---------------------------------------------------------------- files


def test_a_file_is_written_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    for content in (b"old", b"new"):
        with write_atomically(path) as file:
            file.write(content)
            assert not path.exists() or path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_file_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError) as raised, write_atomically(tmp_path / "file" / "plan.json"):
        pass
    assert raised.value.filename == str(tmp_path / "file" / "plan.json")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_write_that_fails_keeps_the_old_file(error: type[BaseException], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def write() -> None:
        with write_atomically(tmp_path / "file") as file:
            file.write(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


def test_a_very_long_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 250)
    with write_atomically(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


def test_sha256_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 3_000_000)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(b"x" * 3_000_000).hexdigest()


def test_a_file_that_is_gone_has_no_sha256(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be read: No such file or directory"):
        sha256_of(tmp_path / "file")


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({"FATWHEEL_CACHE": "/somewhere"}, Path("/somewhere"), id="named"),
        pytest.param({"FATWHEEL_CACHE": "here"}, Path("here").absolute(), id="relative"),
        pytest.param({"FATWHEEL_CACHE": ""}, cache_folder({}), id="empty-is-the-default"),
    ],
)
def test_the_cache_is_where_the_user_says(environ: dict[str, str], expected: Path) -> None:
    assert cache_folder(environ) == expected
    assert expected.is_absolute()
