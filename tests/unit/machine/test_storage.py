from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine.storage import (
    cache_folder,
    fill_once,
    hold_lock,
    sha256_of,
    write_atomically,
)

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


FULL_DISK = """
import pathlib, sys
from ci_tools.errors import MachineError
from ci_tools.machine.storage import write_atomically

try:
    with write_atomically(pathlib.Path(sys.argv[1]) / "deep" / "file") as file:
        file.write(bytes(1 << 20))
except MachineError as error:
    print(error)
"""


FILL = """
import pathlib, shutil, subprocess, sys
from ci_tools.errors import MachineError
from ci_tools.machine.storage import fill_once
root, source = map(pathlib.Path, sys.argv[1:])
ways = {
    "written": lambda folder: (folder / "file").write_bytes(bytes(1 << 20)),
    "copied": lambda folder: shutil.copytree(source, folder, dirs_exist_ok=True),
}
for size in ("64k", "4m"):
    subprocess.run(["mount", "-o", f"remount,size={size}", root], check=True)
    for name, fill in ways.items():
        try:
            print(fill_once(root / name, fill, print).name, "is filled")
        except MachineError as error:
            print(error)
            print(sorted(path.name for path in root.iterdir()))
"""


def test_a_disk_that_is_full_in_the_middle_leaves_nothing_and_a_retry_goes_on(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(bytes(1 << 20))
    root = tmp_path / "cache"
    root.mkdir()
    lines = _run_on_small_disk(root, FILL, str(root), str(tmp_path / "source")).splitlines()
    hint = "  hint: make room there and run the same command again"
    full = "cannot be written: No space left on device"
    assert lines[:3] == [f"{root}/written {full}", hint, "['written.lock']"]
    assert lines[3:6] == [f"{root}/copied {full}", hint, "['copied.lock', 'written.lock']"]
    assert lines[6:] == ["written is filled", "copied is filled"]


def _run_on_small_disk(folder: Path, script: str, *arguments: str) -> str:
    """Return what a script prints that sees a disk of 64 kB in a folder; skip where none can be mounted."""
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=64k none {folder}"
    if not shutil.which("unshare") or subprocess.run([*unshare, mount], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    command = [*unshare, f'{mount} && exec "$@"', "sh", sys.executable, "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_disk_that_is_full_is_said_with_the_file_that_did_not_fit(tmp_path: Path) -> None:
    said = _run_on_small_disk(tmp_path, FULL_DISK, str(tmp_path))
    assert said.startswith(f"{tmp_path}/deep/file cannot be written: No space left on device\n  hint: make room")


def test_a_file_that_may_not_be_as_large_is_named(tmp_path: Path) -> None:
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (999, 999))\n{FULL_DISK}"
    done = subprocess.run([sys.executable, "-c", limited, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path}/deep/file cannot be written: File too large\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


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
