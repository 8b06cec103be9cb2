from __future__ import annotations

import time
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine.process import run
from ci_tools.verify.torch_stock import Background

pytestmark = pytest.mark.slow


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert path.exists()


def test_a_result_and_an_error_come_to_who_asks(tmp_path: Path) -> None:
    background = Background()
    assert background.start(lambda: run(["sh", "-c", "exit 3"], log=tmp_path / "log").status).result() == 3
    with pytest.raises(ZeroDivisionError):
        background.start(lambda: 1 / 0).result()
    assert run(["sh", "-c", "exit 4"], log=tmp_path / "log").status == 4  # the main thread is as it was
    background.stop()


def test_a_timeout_holds_in_the_background_too(tmp_path: Path) -> None:
    background = Background()
    ended = background.start(lambda: run(["sleep", "600"], log=tmp_path / "log", timeout=0.3)).result()
    assert ended.timed_out
    background.stop()


def test_a_stop_kills_the_command_and_drops_what_has_not_begun(tmp_path: Path) -> None:
    background, began, ended, log = Background(), tmp_path / "began", tmp_path / "ended", tmp_path / "log"

    def work() -> None:
        run(["sh", "-c", f"touch '{began}'; sleep 600 && touch '{ended}'"], log=log)

    running, waiting = background.start(work), background.start(work)
    wait_for(began)
    background.stop()
    with pytest.raises(MachineError, match="the run has ended"):
        running.result()
    assert waiting.cancelled()
    assert not ended.exists()


def test_work_that_goes_on_after_a_stop_runs_no_command_to_its_end(tmp_path: Path) -> None:
    background, began, ended, log = Background(), tmp_path / "began", tmp_path / "ended", tmp_path / "log"

    def persist() -> None:
        with pytest.raises(MachineError):
            run(["sh", "-c", f"touch '{began}'; sleep 600"], log=log)
        run(["sh", "-c", f"sleep 1; touch '{ended}'"], log=log)

    running = background.start(persist)
    wait_for(began)
    background.stop()
    with pytest.raises(MachineError):
        running.result()
    assert not ended.exists()
