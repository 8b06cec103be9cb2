from __future__ import annotations

import hashlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine.storage import (
    cache_folder,
    fill_once,
    hold_lock,
    sha256_of,
    write_atomically,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
FILL = """
import pathlib, sys, time
from ci_tools.machine.storage import fill_once

def fill(folder):
    (folder / "half").write_text("")
    with pathlib.Path(sys.argv[2]).open("a") as file:
        file.write("filled\\n")
    time.sleep(float(sys.argv[3]))

fill_once(pathlib.Path(sys.argv[1]), fill, print)
"""


def filling(folder: Path, log: Path, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", FILL, str(folder), str(log), str(seconds)], stdout=subprocess.PIPE)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


# ---------------------------------------------------------------- folders


def test_a_folder_is_filled_on_first_use_alone(tmp_path: Path) -> None:
    calls: list[Path] = []
    for _ in range(2):
        assert fill_once(tmp_path / "a" / "b", calls.append, print) == tmp_path / "a" / "b"
    assert calls == [tmp_path / "a" / "b.partial"]


def test_a_fill_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fill_once(tmp_path / "a", fail, print)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


@pytest.mark.slow
def test_a_killed_fill_is_done_again_from_nothing(tmp_path: Path) -> None:
    process = filling(tmp_path / "a", tmp_path / "log", 60)
    wait_for(tmp_path / "log")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "a").exists()
    seen: list[list[Path]] = []
    fill_once(tmp_path / "a", lambda folder: seen.append([*folder.iterdir()]), print)
    assert seen == [[]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.lock", "a.sha256", "log"]


@pytest.mark.slow
def test_two_processes_fill_once(tmp_path: Path) -> None:
    both = [filling(tmp_path / "a", tmp_path / "log", 2.5) for _ in range(2)]
    said = b"".join(process.communicate(timeout=30)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert (tmp_path / "log").read_text() == "filled\n"
    assert said.count(b"waiting for another run that works on") == 1


# ---------------------------------------------------------------- locks


@pytest.mark.slow
def test_a_lock_that_is_held_is_told_after_two_seconds(tmp_path: Path) -> None:
    lines: list[str] = []
    release, held = threading.Event(), threading.Event()

    def hold() -> None:
        with hold_lock(tmp_path / "a", lines.append):
            held.set()
            release.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    threading.Timer(2.5, release.set).start()
    started = time.monotonic()
    with hold_lock(tmp_path / "a", lines.append):
        assert lines == [f"waiting for another run that works on {tmp_path / 'a'}"]
    assert 2 < time.monotonic() - started < 10
    holder.join()


@pytest.mark.slow
def test_a_lock_is_waited_for_with_a_word_every_few_seconds_and_not_for_ever(tmp_path: Path) -> None:
    lines: list[str] = []
    refusal = rf"^{tmp_path}/a.lock, the lock of {tmp_path}/a, is still held .* after \d+ s"
    with (
        hold_lock(tmp_path / "a", lines.append),
        pytest.raises(MachineError, match=refusal),
        hold_lock(tmp_path / "a", lines.append, limit=0.7, every=0.2),
    ):
        pass
    first = f"waiting for another run that works on {tmp_path / 'a'}"
    assert lines[0] == first
    assert lines[1:] == sorted({line for line in lines if re.fullmatch(rf"{re.escape(first)}: \d s", line)}) != []


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


def test_a_disk_that_is_full_is_said_with_the_file_that_did_not_fit(tmp_path: Path) -> None:
    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=64k none {tmp_path}"
    if not shutil.which("unshare") or subprocess.run([*unshare, mount], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    command = [*unshare, f'{mount} && exec "$@"', "sh", sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path}/deep/file cannot be written: No space left on device\n  hint: make room")


def test_a_file_that_may_not_be_as_large_is_named(tmp_path: Path) -> None:
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (999, 999))\n{FULL_DISK}"
    done = subprocess.run([sys.executable, "-c", limited, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path}/deep/file cannot be written: File too large\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk is full here")
def test_a_full_standard_output_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1.0"\n')
    command = [sys.executable, "-m", "ci_tools", "init", str(tmp_path)]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert done.returncode == 3
    assert "fatwheel: No space left on device (standard output" in done.stderr
    assert "Exception ignored" not in done.stderr


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


@pytest.mark.slow
@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_text("other")], ids=["lost", "changed"])
def test_what_is_not_what_was_filled_in_is_made_again(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    said: list[str] = []
    for _ in range(2):
        folder = fill_once(tmp_path / "a", lambda folder: (folder / "file").write_text("right") and None, said.append)
        assert (folder / "file").read_text() == "right"
        damage(folder / "file")
    assert said == [f"{tmp_path / 'a'} has changed since it was filled, so it is filled again"]
