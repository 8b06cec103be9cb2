"""Forks confined processes from one that is prepared: a script that a prepared program loads, for `sandbox`.

Its program reads and imports once what all commands need. Then it calls `serve`: each line of its standard input is one
request, in JSON. Rules, as `_confined` takes them, fork a process, and its id is the answer. `null` takes leave of that
process, and the exit status is the answer. Until then its id belongs to no other process.

A forked process is like a started one: it is confined before it runs a line of the command, has a session and a
process group of its own, the variables of its rules, an empty input, and no other descriptor than its output. When the
input ends, because the parent has died or is done, the group is killed.
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

# The names of prctl(2).
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36  # orphaned descendants become children of this process, not of init
OUTPUT = 2  # the last descriptor that a forked process has
READY = "ready"


def serve(answers: int, run: Callable[[list[str]], None] | None = None) -> None:
    """Answer requests until the input ends; `run` gets the words of a command, in the process that is forked for it.

    `answers` is the descriptor that answers are written to. Without `run`, the process becomes the command's program.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    confined = _load_beside("_confined")
    run = run or (lambda command: confined.execute(command, dict(os.environ)))
    gc.collect()
    gc.freeze()  # a collection in a forked process would copy every page that it looks at
    _answer(answers, READY)
    own, pid = os.getpid(), 0
    try:
        for line in iter(sys.stdin.buffer.readline, b""):
            rules = json.loads(line)
            if rules is None:
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                pid = 0
                with suppress(ChildProcessError):
                    _bury_ended()  # before the answer: nobody who hears it finds them
                _answer(answers, status)
            else:
                pid = os.fork() or _run_forked(own, rules, confined, run)
                _answer(answers, pid)
    finally:
        _end_group(pid)


def _load_beside(name: str) -> Any:  # noqa: ANN401 - a module
    """Load a script of this folder, which no import path leads to."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    if not spec or not spec.loader:
        raise ImportError(f"{name} is missing beside {__file__}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _answer(answers: int, what: object) -> None:
    os.write(answers, f"{json.dumps(what)}\n".encode())


def _run_forked(server: int, rules: dict[str, Any], confined: Any, run: Callable[[list[str]], None]) -> int:  # noqa: ANN401 - a module
    """Run a command in this process, which was forked for it, and end the process. Never returns."""
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != server:  # it ended before the signal was set
            os._exit(1)
        _drop_descriptors()
        os.chdir(rules["folder"])
        confined.restrict(rules)
        ctypes.set_errno(0)
        os.environ.clear()
        os.environ.update(rules["env"])
        run(rules["command"])
    except BaseException:  # noqa: BLE001 - as Python does at the end of a program
        traceback.print_exc()
    finally:
        os._exit(1)  # whatever happens, it must not go on as a second server


def _drop_descriptors() -> None:
    """Let the input be empty, and close what only the server needs."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - this runs before every command
        with suppress(OSError):
            if int(name) > OUTPUT:
                os.close(int(name))


def _bury_ended() -> None:
    """Take leave of every child that has ended; raise ChildProcessError if there is no other."""
    while os.waitpid(-1, os.WNOHANG)[0]:
        pass


def _end_group(pid: int) -> None:
    """Kill a forked process with all that it started, and wait until none is left: none of them can leave its group.

    All that have ended are buried before the next kill: each looks at every process of the group, ended ones as well.
    """
    with suppress(ChildProcessError):
        while pid:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.wait()
            _bury_ended()
