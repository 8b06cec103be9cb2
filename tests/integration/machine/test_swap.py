"""The swap that is made on a hosted runner: whole before it is used, and gone where it fails."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine import runner
from ci_tools.model.request import Care
from tests.builders.hosted_runner import GIB, HOSTED, SWAPS, Runner, make_runner
from tests.builders.sources import write

pytestmark = pytest.mark.slow

needs_mkswap = pytest.mark.skipif(
    not sys.platform.startswith("linux") or not (shutil.which("mkswap") and shutil.which("fallocate")),
    reason="mkswap and fallocate come with util-linux",
)
needs_room = pytest.mark.skipif(
    shutil.disk_usage(Path(__file__)).free < 6 * GIB, reason="1 GiB of swap needs 5 GiB of free disk"
)


@pytest.fixture
def hosted(tmp_path: Path) -> Runner:
    return make_runner(tmp_path / "disk")


@needs_mkswap
@needs_room
def test_a_swap_file_is_made_whole_before_it_is_used(hosted: Runner) -> None:
    (said,) = hosted.prepare(Care(swap_gib=1))
    assert said.startswith(f"1 GiB of swap are in use: {hosted.root}/mnt/fatwheel.swap; the disk has ")
    made = hosted.root / "mnt/fatwheel.swap"
    assert (made.stat().st_size, made.stat().st_mode & 0o777) == (GIB, 0o600)
    with made.open("rb") as file:
        assert file.read(4096).endswith(b"SWAPSPACE2")
    assert hosted.recorder.commands[-2:] == [
        ["mv", "--", "/mnt/fatwheel.swap.partial", "/mnt/fatwheel.swap"],
        ["swapon", "/mnt/fatwheel.swap"],
    ]


def test_swap_that_is_in_use_is_not_made_again(hosted: Runner) -> None:
    hosted.swaps(16)
    assert hosted.prepare(Care(swap_gib=16)) == ["16 GiB of swap are in use already"]
    assert hosted.recorder.programs == ["true"]


@needs_mkswap
@needs_room
def test_swap_that_is_too_small_is_made_anew(hosted: Runner) -> None:
    write(hosted.root, {"proc/swaps": f"{SWAPS}{hosted.root}/mnt/fatwheel.swap file 1024 0 -3\n"})
    hosted.prepare(Care(swap_gib=1))
    assert hosted.recorder.commands[1] == ["swapoff", "/mnt/fatwheel.swap"]
    assert hosted.recorder.programs[-1] == "swapon"


@needs_mkswap
@needs_room
@pytest.mark.parametrize("name", ["fatwheel.swap.partial", "fatwheel.swap"])
def test_what_a_killed_run_left_is_never_used(hosted: Runner, name: str) -> None:
    write(hosted.root, {f"mnt/{name}": "half a swap file"})
    hosted.prepare(Care(swap_gib=1))
    assert hosted.recorder.commands[1] == ["rm", "-f", "--", f"/mnt/{name}"]
    assert sorted(path.name for path in (hosted.root / "mnt").iterdir()) == ["fatwheel.swap", "x"]


@needs_mkswap
@needs_room
@pytest.mark.parametrize("program", ["install", "fallocate", "mkswap", "mv", "swapon"])
def test_a_step_that_fails_leaves_nothing(hosted: Runner, program: str) -> None:
    hosted.recorder.failing = program
    with pytest.raises(MachineError, match=f"no swap could be made: `{program} .*` failed: it did not work"):
        hosted.prepare(Care(swap_gib=1))
    assert [path.name for path in (hosted.root / "mnt").iterdir()] == ["x"]


@needs_room
def test_a_kill_leaves_nothing(hosted: Runner) -> None:
    def killed(command: Sequence[str]) -> str:
        if command[0] == "mkswap":
            raise KeyboardInterrupt
        return hosted.recorder(command)

    host = runner.Host(environ=HOSTED, say=hosted.said.append, call=killed, root=hosted.root)
    with pytest.raises(KeyboardInterrupt):
        runner.prepare(Care(swap_gib=1), host)
    assert [path.name for path in (hosted.root / "mnt").iterdir()] == ["x"]


def test_a_kernel_without_swap_is_told(hosted: Runner) -> None:
    (hosted.root / "proc/swaps").unlink()
    with pytest.raises(MachineError, match=r"there is no .*/proc/swaps, so its kernel knows none"):
        hosted.prepare(Care(swap_gib=1))


def test_a_disk_that_would_not_hold_the_swap_is_told(hosted: Runner) -> None:
    with pytest.raises(MachineError, match=r"no disk holds 1000000 GiB of swap with 4.0 GiB left for the build: free"):
        hosted.prepare(Care(swap_gib=1_000_000))
    assert hosted.recorder.programs == ["true"]
