"""The end of a group of processes in which many have ended already."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from ci_tools.sandbox import _fork_server

ENDED = 40


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the server is for Linux")
def test_ended_processes_are_buried_before_the_next_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kill looks at the whole group: one for each ended process took minutes for some ten thousand of them."""
    kills: list[int] = []
    kill = os.killpg
    monkeypatch.setattr(os, "killpg", lambda group, number: (kills.append(number), kill(group, number)))
    server = os.fork()
    if not server:  # with no other children than these
        group = _start(lambda: time.sleep(60), 0)
        for _ in range(ENDED):
            os.waitid(os.P_PID, _start(lambda: None, group), os.WEXITED | os.WNOWAIT)
        _fork_server._end_group(group)  # noqa: SLF001 - nothing else ends a group
        with suppress(ChildProcessError):
            os.wait()
            os._exit(99)  # one is left
        os._exit(len(kills))
    status = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
    assert 1 <= status <= 4


def _start(work: Callable[[], None], group: int) -> int:
    """Fork a process in a group, a new one for 0, and return its id."""
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    with suppress(OSError):
        os.setpgid(pid, group)
    return pid
