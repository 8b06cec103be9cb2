"""What no longer gets on is ended, and what it was doing is told."""

from __future__ import annotations

import os
import re
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tests.workflows import harness
from tests.workflows.small_workflows import job, run_jobs
from tests.workflows.watched import StuckError, run_watched

# A program that says a word every tenth of a second, and then waits for another that says none.
PROGRAM = """
import subprocess, sys, time
for number in range(int(sys.argv[1])):
    print("word", number, flush=True)
    time.sleep(0.1)
subprocess.run(["sleep", sys.argv[2]])
"""


def test_what_speaks_may_take_longer_than_the_silence_allowed(tmp_path: Path) -> None:
    done = run_watched([sys.executable, "-c", PROGRAM, "12", "0"], cwd=tmp_path, env=os.environ, quiet=1.0)
    assert (done.returncode, done.stdout.splitlines()[-1], done.stderr) == (0, "word 11", "")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists processes in /proc")
def test_what_is_silent_is_ended_and_told(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(StuckError) as caught:
        run_watched([sys.executable, "-c", PROGRAM, "2", "60"], cwd=folder, env=os.environ, quiet=0.5)
    text = str(caught.value)
    assert text.startswith("act printed nothing for 0.5 s\nits last words:\n  word 0\n  word 1\nwhat runs:\n")
    (sleeper,) = re.findall(r"^  (\d+) S \S+ sleep 60 $", text, re.MULTILINE)
    while Path("/proc", sleeper, "exe").exists():  # of a process that has ended, it leads nowhere
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists processes in /proc")
def test_a_step_that_never_ends_is_told_and_where_act_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harness, "run_watched", partial(run_watched, quiet=5.0))
    with pytest.raises(StuckError) as caught:
        run_jobs(tmp_path, job("build", "echo begun; exec sleep 60"))
    text = str(caught.value)
    assert re.search(r'its last words:\n(  .*\n)*  .*"msg":"begun', text), text
    assert re.search(r"^  \d+ S \S+ sleep 60 $", text, re.MULTILINE), text
    assert re.search(r"^  \S*HostEnvironment\S+: syscall", text, re.MULTILINE), text
