"""What ends a command that takes too much, and what does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ci_tools import sandbox
from ci_tools.sandbox import Verdict
from tests.builders.cages import SOME, Cage, confines, unchanged

pytestmark = pytest.mark.slow  # many real processes


@confines
@pytest.mark.parametrize(
    ("code", "verdict", "limits"),
    [
        pytest.param("time.sleep(600)", Verdict.TIMED_OUT, {"seconds": 0.2}, id="hangs"),
        pytest.param(
            "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass",
            Verdict.TIMED_OUT,
            {"seconds": 0.2},
            id="hangs-and-ignores-signals",
        ),
        pytest.param(
            "for _ in range(99):\n if not os.fork():\n  while time.process_time() < 0.05: 1\n  os._exit(0)\n os.wait()",
            Verdict.TIMED_OUT,
            {"seconds": 0.2},
            id="computes-in-one-process-after-another",
        ),
        pytest.param(
            "import _thread\n_thread.start_new_thread(exec, ('while True: pass',))\ntime.sleep(600)",
            Verdict.TIMED_OUT,
            {"seconds": 0.2},
            id="computes-while-its-first-thread-waits",
        ),
        pytest.param("os.kill(os.getpid(), signal.SIGSTOP)", Verdict.TIMED_OUT, {"seconds": 0.2}, id="stops-itself"),
        pytest.param(
            "while True: print('rubbish' * 1000)", Verdict.TOO_MUCH_WRITTEN, {"written": 4 << 20}, id="prints-for-ever"
        ),
        pytest.param("while True: os.fork()", Verdict.TOO_MANY_PROCESSES, {}, id="forks-for-ever"),
        pytest.param(
            "import _thread\nwhile True:\n try: _thread.start_new_thread(time.sleep, (99,))\n except: pass",
            Verdict.TOO_MANY_PROCESSES,
            {"processes": 2},
            id="starts-threads-for-ever",
        ),
        pytest.param(
            "kept = []\nwhile True: kept.append(bytearray(b'x' * (1 << 20)))",
            Verdict.OUT_OF_MEMORY,
            {"memory": 256 << 20},
            id="eats-memory",
        ),
        pytest.param(
            "for _ in range(5): os.fork() or (bytearray(b'x' * (80 << 20)), time.sleep(600))\ntime.sleep(600)",
            Verdict.OUT_OF_MEMORY,
            {"memory": 256 << 20},
            id="eats-memory-in-several",
        ),
        pytest.param(
            "for n in range(10**6):\n with open(str(n), 'wb') as f: f.write(b'x' * (1 << 20))",
            Verdict.TOO_MUCH_WRITTEN,
            {},
            id="fills-the-disk",
        ),
        pytest.param(
            "for n in range(10**9): open(str(n), 'w')",
            Verdict.TOO_MUCH_WRITTEN,
            {"written": 1 << 20},
            id="fills-it-with-names",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "kept = []\nfor n in range(10**6):\n kept.append(open('f', 'wb'))\n os.unlink('f')\n"
            " kept[-1].write(b'x' * (1 << 20))\n time.sleep(0.01)",
            Verdict.TOO_MUCH_WRITTEN,
            {},
            id="fills-it-without-names",
        ),
        pytest.param(
            "while True:\n os.mkdir('d' * 200)\n os.chdir('d' * 200)",
            Verdict.TOO_MUCH_WRITTEN,
            {"written": 1 << 20},
            id="digs-for-ever",
        ),
        pytest.param(
            "sleep = os.open('s', os.O_CREAT | os.O_WRONLY, 0o311)\n"
            "os.write(sleep, open(shutil.which('sleep', path=os.defpath), 'rb').read())\nos.close(sleep)\n"
            "for n in range(60):\n f = os.open('f', os.O_CREAT | os.O_WRONLY)\n os.unlink('f')\n"
            " os.write(f, b'x' * (1 << 20))\n os.set_inheritable(f, True)\nos.execv('./s', ['s', '600'])",
            Verdict.TOO_MUCH_WRITTEN,
            {},
            id="keeps-files-in-a-program-that-nobody-may-read",
        ),
        pytest.param(
            "import mmap\nkept = []\nfor n in range(60):\n f = open('f', 'w+b')\n os.unlink('f')\n"
            " f.write(b'x' * (1 << 20))\n f.flush()\n"
            " kept.append(mmap.mmap(f.fileno(), 4096))\nos.closerange(3, 999)\ntime.sleep(600)",
            Verdict.TOO_MUCH_WRITTEN,
            {},
            id="keeps-files-mapped",
        ),
        pytest.param(
            "kept = []\nwhile True:\n if os.fork() == 0:\n  for _ in range(400): kept.append(socket.socketpair())\n"
            "  for a, b in kept: a.setblocking(False); a.send(bytes(1 << 17))\n  time.sleep(600)\n time.sleep(0.2)",
            Verdict.OUT_OF_MEMORY,
            {"memory": 512 << 20},
            id="eats-memory-in-sockets",
        ),
        pytest.param(
            "import threading\nkept = []\ndef eat():\n while True: kept.append(bytearray(b'x' * (1 << 20)))\n"
            "threading.Thread(target=eat).start()\nctypes.CDLL(None).pthread_exit(None)",
            Verdict.OUT_OF_MEMORY,
            {"memory": 256 << 20},
            id="eats-memory-when-its-first-thread-has-ended",
        ),
    ],
)
def test_a_limit_ends_everything(
    code: str, verdict: Verdict, limits: dict[str, float], cage: Cage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "CALM_PAUSE", 0.2)  # folders and names alone take no space that the disk tells of
    with unchanged(cage):
        ended = cage.run(code, SOME._replace(**limits))  # type: ignore[arg-type]
    assert (ended.verdict, ended.status) == (verdict, -signal.SIGKILL), cage.said(ended)[-2000:]
    assert ended.seconds < SOME.seconds
    assert cage.log.stat().st_size <= SOME.written + ended.start


@pytest.fixture
def one_processor(cage: Cage) -> Iterator[None]:
    """Keep this thread, the server, and what both start, to one processor: what shall be busy is that one alone."""
    kept = [0, *([cage.server.process.pid] if cage.server else [])]
    before = os.sched_getaffinity(0)
    for process in kept:
        os.sched_setaffinity(process, {min(before)})
    yield
    for process in kept:
        os.sched_setaffinity(process, before)


@confines
@pytest.mark.usefixtures("one_processor")
def test_a_busy_machine_ends_nothing_that_an_idle_one_lets_finish(cage: Cage) -> None:
    """Six others on its processor, as nice as the command, leave it a seventh of the time.

    Each has a session of its own: Linux shares the time among sessions first (sched(7), autogroup).
    """
    others = [sys.executable, "-I", "-S", "-c", "import os\nos.nice(10)\nwhile True: pass"]
    crowd = [subprocess.Popen(others, start_new_session=True) for _ in range(6)]
    try:
        ended = cage.run("while time.process_time() < 0.1: pass", SOME._replace(seconds=0.4))
    finally:
        for process in crowd:
            process.kill()
        for process in crowd:
            process.wait()
    assert ended.verdict is Verdict.ENDED
    assert ended.seconds > 0.4, "this machine was not busy"


@confines
def test_processes_that_multiply_do_not_put_off_the_next_look(cage: Cage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SHARE", 1e9)  # each look is so slow that no other is due
    ended = cage.run("time.sleep(0.5)\nfor _ in range(40): os.fork() or (time.sleep(3), os._exit(0))\ntime.sleep(3)")
    assert ended.verdict is Verdict.TOO_MANY_PROCESSES


@confines
def test_memory_that_processes_share_counts_once(cage: Cage) -> None:
    code = "kept = b'x' * (150 << 20)\nfor _ in range(3): os.fork()\ntime.sleep(0.5)"
    assert cage.run(code, SOME._replace(memory=400 << 20)).verdict is Verdict.ENDED


@confines
def test_one_large_file_is_cut_at_the_limit(cage: Cage) -> None:
    with unchanged(cage):
        ended = cage.run("open('big', 'wb').write(b'x' * (60 << 20))")
    assert ended.verdict is Verdict.TOO_MUCH_WRITTEN
    assert (cage.folder / "big").stat().st_size <= SOME.written + 65536


@pytest.mark.parametrize(
    ("code", "verdict", "status"),
    [
        pytest.param("open(outside + '/new', 'w')", Verdict.ENDED, 0, id="writes-outside"),
        pytest.param("time.sleep(600)", Verdict.TIMED_OUT, -9, id="hangs"),
        # Nothing but the watcher holds it: if all of them forked, a busy machine would have no process left for others.
        pytest.param("while True: os.fork() or time.sleep(600)", Verdict.TOO_MANY_PROCESSES, -9, id="forks-for-ever"),
    ],
)
def test_a_trusted_command_has_limits_alone(code: str, verdict: Verdict, status: int, cage: Cage) -> None:
    limits = SOME._replace(seconds=0.2) if verdict is Verdict.TIMED_OUT else SOME
    ended = cage.run(code, limits, trusted=True)
    assert (ended.verdict, ended.status, cage.processes()) == (verdict, status, [])
