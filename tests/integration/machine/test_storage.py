from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine.storage import fill_once, hold_lock

ROOT = Path(__file__).parents[3]
FILL = """
import pathlib, sys, time
from ci_tools.machine.storage import fill_once

def fill(folder):
    (folder / "half").write_text("")
    with pathlib.Path(sys.argv[2]).open("a") as file:
        file.write("filled\\n")
    deadline = time.monotonic() + 60
    while not pathlib.Path(sys.argv[3]).exists() and time.monotonic() < deadline:
        time.sleep(0.01)

fill_once(pathlib.Path(sys.argv[1]), fill, print)
"""


def filling(folder: Path, log: Path, go: Path) -> subprocess.Popen[bytes]:
    """Start a process that fills a folder and is done with it when the file `go` is there, or after a minute."""
    command = [sys.executable, "-u", "-c", FILL, str(folder), str(log), str(go)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


@pytest.mark.slow
def test_a_killed_fill_is_done_again_from_nothing(tmp_path: Path) -> None:
    process = filling(tmp_path / "a", tmp_path / "log", tmp_path / "never")
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
    go = tmp_path / "go"
    first = filling(tmp_path / "a", tmp_path / "log", go)
    wait_for(tmp_path / "log")
    second = filling(tmp_path / "a", tmp_path / "log", go)
    assert second.stdout is not None
    assert b"waiting for another run that works on" in second.stdout.readline()
    go.touch()
    assert [process.communicate()[0] for process in (first, second)] == [b"", b""]
    assert [first.returncode, second.returncode] == [0, 0]
    assert (tmp_path / "log").read_text() == "filled\n"


@pytest.mark.parametrize("how", ["other-bytes", "one-file-more", "one-file-less", "another-mode"])
def test_what_has_changed_since_is_filled_again(how: str, tmp_path: Path) -> None:
    filled = []

    def fill(folder: Path) -> None:
        filled.append(folder)
        (folder / "sub").mkdir()
        (folder / "sub/file").write_text("right")

    file = fill_once(tmp_path / "a", fill, print) / "sub/file"
    fill_once(tmp_path / "a", fill, print)
    assert len(filled) == 1
    before = file.stat()
    if how == "other-bytes":  # as many, and the file's times are put back
        file.write_text("wrong")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif how == "one-file-more":
        file.with_name("other").touch()
    elif how == "one-file-less":
        file.unlink()
    else:
        file.chmod(0o755)
    assert fill_once(tmp_path / "a", fill, print) == tmp_path / "a"
    assert len(filled) == (1 if how == "another-mode" else 2)  # its bytes are the same
    assert file.read_text() == "right"


def test_a_copy_of_what_was_filled_is_taken_as_it_is(tmp_path: Path) -> None:
    fill_once(tmp_path / "a", lambda folder: (folder / "file").touch(), print)
    fill_once(tmp_path / "a", lambda _: pytest.fail("it is there"), print)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "a", copy / "a")
    for name in ("a.sha256", "a.stamp"):
        shutil.copy(tmp_path / name, copy / name)
    fill_once(copy / "a", lambda _: pytest.fail("it is there"), print)
    assert (copy / "a.stamp").read_text() != (tmp_path / "a.stamp").read_text()


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
    assert time.monotonic() - started > 2
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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk is full here")
@pytest.mark.parametrize("words", ["init", "plan --help"])
def test_a_full_standard_output_is_named(words: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1.0"\n')
    command = [sys.executable, "-m", "ci_tools", *words.split(), str(tmp_path)]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert done.returncode == 3
    assert "fatwheel: No space left on device (standard output" in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a shell")
@pytest.mark.parametrize("words", ["--help", "plan --help", "recipe list", "install facts"])
def test_a_closed_standard_output_is_an_error(words: str) -> None:
    command = f"exec {sys.executable} -m ci_tools {words} 1>&-"
    done = subprocess.run(["sh", "-c", command], stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert done.stderr.splitlines()[0] == "fatwheel: Bad file descriptor (standard output)"
    assert done.returncode == 3
    assert "Exception ignored" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="streams are closed by a shell")
def test_what_is_not_printed_needs_no_stream(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m ci_tools plan {tmp_path}/none 0<&- 1>&- 2>&-"
    assert subprocess.run(["sh", "-c", command], check=False, cwd=ROOT).returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_text("other")], ids=["lost", "changed"])
def test_what_is_not_what_was_filled_in_is_made_again(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    said: list[str] = []
    for _ in range(2):
        folder = fill_once(tmp_path / "a", lambda folder: (folder / "file").write_text("right") and None, said.append)
        assert (folder / "file").read_text() == "right"
        damage(folder / "file")
    assert said == [f"{tmp_path / 'a'} has changed since it was filled, so it is filled again"]
