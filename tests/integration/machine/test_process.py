from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine.process import output, run, tail

pytestmark = pytest.mark.slow


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    return (output(["ps", "-o", "stat=", "-p", str(pid)]) or "Z")[0] != "Z"


def ends_soon(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while (alive := lives(pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive


def test_output_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log"
    for word in ("one", "two"):
        ended = run(["sh", "-c", f"echo {word}; echo {word} >&2; exit 3"], log=log)
    assert (ended.status, ended.timed_out, ended.log) == (3, False, log)
    assert log.read_text().splitlines() == [
        line for word in ("one", "two") for line in (f"$ sh -c echo {word}; echo {word} >&2; exit 3", word, word)
    ]


def test_no_password_is_logged(tmp_path: Path) -> None:
    words = ["true", "https://me:p@ss@h/x?token=s"]
    assert run(words, log=tmp_path / "log").log.read_text() == "$ true https://***@h/x?…\n"


def test_a_command_reads_no_input(tmp_path: Path) -> None:
    assert run(["cat"], log=tmp_path / "log", timeout=5).status == 0


def test_a_command_runs_where_and_with_what_it_is_told(tmp_path: Path) -> None:
    run(["sh", "-c", "pwd; echo $WORD"], log=tmp_path / "log", cwd=tmp_path, env={"WORD": "up", "PATH": os.defpath})
    assert (tmp_path / "log").read_text().splitlines()[1:] == [str(tmp_path.resolve()), "up"]


@pytest.mark.parametrize(
    ("script", "timeout", "timed_out"),
    [
        pytest.param("sleep 60 & echo $! > pid; sleep 60", 0.5, True, id="timeout"),
        pytest.param("(sleep 60 & echo $! > pid; wait) & sleep 60", 0.5, True, id="timeout-grandchild"),
        pytest.param("sleep 60 & echo $! > pid", 20, False, id="left-behind"),
        pytest.param("setsid sleep 60 & echo $! > pid; sleep 60", 0.5, True, id="timeout-in-a-group-of-its-own"),
        pytest.param("setsid sleep 60 & echo $! > pid", 20, False, id="left-behind-in-a-group-of-its-own"),
        pytest.param("setsid sh -c 'sleep 60 & echo $! > pid; sleep 60' & sleep 60", 0.5, True, id="a-group-s-child"),
    ],
)
def test_the_whole_group_ends(script: str, timeout: float, timed_out: bool, tmp_path: Path) -> None:  # noqa: FBT001
    ended = run(["sh", "-c", script], log=tmp_path / "log", cwd=tmp_path, timeout=timeout)
    assert ended.timed_out is timed_out
    assert ended.seconds < 10
    assert ends_soon(int((tmp_path / "pid").read_text()))


def test_an_interrupt_ends_the_whole_group(tmp_path: Path) -> None:
    me = os.getpid()
    with pytest.raises(KeyboardInterrupt):
        run(["sh", "-c", f"sleep 60 & echo $! > pid; kill -INT {me}; wait"], log=tmp_path / "log", cwd=tmp_path)
    assert ends_soon(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("group", ["", "setsid "])
def test_a_killed_run_leaves_nothing_running(tmp_path: Path, group: str, end: signal.Signals) -> None:
    script = (
        "import sys; from pathlib import Path; from ci_tools.machine.process import run; here = Path(sys.argv[1]); "
    )
    script += f"run(['sh', '-c', '{group}sleep 60 & echo $! > pid; mv pid there; wait'], log=here / 'log', cwd=here)"
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) as process:
        deadline = time.monotonic() + 20
        while not (tmp_path / "there").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(end)
    assert ends_soon(int((tmp_path / "there").read_text()))


def test_a_command_that_a_signal_ends_has_failed(tmp_path: Path) -> None:
    ended = run(["sh", "-c", "kill -SEGV $$"], log=tmp_path / "log")
    assert (ended.status, ended.timed_out) == (128 + signal.SIGSEGV, False)


def test_a_command_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    for command in ("no-such-command", str(tmp_path / "text")):
        with pytest.raises(MachineError, match=f"^{command} cannot be started: there is no such command$"):
            run([command], log=tmp_path / "log")


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("echo ' text '", "text", id="stripped"),
        pytest.param(r"printf '\377ok'", "\ufffdok", id="not-utf-8"),
        pytest.param("echo text; exit 1", None, id="failed"),
        pytest.param("sleep 60", None, id="too-slow"),
    ],
)
def test_output_of_a_command(script: str, expected: str | None) -> None:
    assert output(["sh", "-c", script], timeout=0.5) == expected


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    run([sys.executable, "-c", "print(*range(100), sep='\\n')"], log=tmp_path / "log")
    assert tail(tmp_path / "log", 2) == "98\n99"


def test_the_tail_of_the_latest_command_alone(tmp_path: Path) -> None:
    for word in ("one", "two"):
        ended = run(["echo", word], log=tmp_path / "log")
    assert tail(ended.log, 10, ended.start) == "two"
