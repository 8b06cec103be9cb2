"""Folders to be confined in, for tests of the sandbox, and what is run in them."""

from __future__ import annotations

import hashlib
import os
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from ci_tools.machine.process import output
from ci_tools.sandbox import Confined, Limits, run_in_sandbox, why_not
from ci_tools.sandbox.groups import ForkServer
from ci_tools.sandbox.leftovers import clear

SOME = Limits(seconds=20, memory=1 << 30, processes=16, written=8 << 20)
REASON = why_not()
confines = pytest.mark.skipif(bool(REASON), reason=REASON or "this machine can")
MODULES = ("ctypes", "os", "shutil", "signal", "socket", "subprocess", "sys", "time")

# A prepared program whose forked processes run as `python -I -S -c CODE` does.
PREPARED = """
import ctypes, os, runpy, shutil, signal, socket, subprocess, sys, time, traceback

def run(command):
    status = 1
    try:
        exec(command[-1], {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(status)

runpy.run_path(sys.argv[-2])["serve"](int(sys.argv[-1]), run)
"""


def with_imports(code: str) -> str:
    """Return code after the imports of the modules that it names: all of them take longer than most of it."""
    return "".join(f"import {name}\n" for name in MODULES if f"{name}." in code) + textwrap.dedent(code)


class Cage(NamedTuple):
    """A folder to be confined in, and what lies around it."""

    folder: Path
    outside: Path
    log: Path
    server: ForkServer | None = None  # that forks the processes to be confined

    def run(
        self, code: str, limits: Limits = SOME, *, trusted: bool = False, lent: tuple[Path, ...] = (), **env: str
    ) -> Confined:
        """Run Python code, which finds the folder outside as `outside`."""
        script = f"outside = {str(self.outside)!r}\n{with_imports(code)}"
        command = [sys.executable, "-I", "-S", "-c", script]
        return run_in_sandbox(
            command,
            folder=self.folder,
            readable=lent,
            env=env,
            log=self.log,
            limits=limits,
            trusted=trusted,
            server=self.server,
        )

    def said(self, ended: Confined) -> str:
        return self.log.read_bytes()[ended.start :].decode()

    def processes(self) -> list[str]:
        """Return the processes that were started with the name of this folder, and those that were forked."""
        if not Path("/proc/self/stat").exists():
            return (output(["pgrep", "-f", str(self.folder)]) or "").split()
        return [path.name for path in Path("/proc").iterdir() if path.name.isdigit() and self._is_own(path)]

    def _is_own(self, process: Path) -> bool:
        try:
            parent = int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
            words = (process / "cmdline").read_bytes()
        except OSError:  # it has ended
            return False
        return os.fsencode(self.folder) in words or (self.server is not None and parent == self.server.process.pid)


KINDS = ["started", pytest.param("forked", marks=confines)]
LIBC = "libc = ctypes.CDLL(None, use_errno=True)\n"
CALL = "print(libc.{call}, ctypes.get_errno())"

DAEMON = """
    if os.fork() == 0:
        try: os.setsid()
        except PermissionError: pass
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open('started', 'w').close()
            time.sleep(600)
        os._exit(0)
    while not os.path.exists('started'): time.sleep(0.01)
"""


@contextmanager
def made_cage(root: Path, server: ForkServer | None) -> Iterator[Cage]:
    cage = Cage(root / "folder", root / "outside", root / "log", server)
    cage.folder.mkdir()
    (cage.outside / "deep").mkdir(parents=True)
    (cage.outside / "secret").write_text("the secret")
    (cage.outside / "deep" / "file").write_text("as it was")
    yield cage
    clear(cage.folder)


@contextmanager
def unchanged(cage: Cage) -> Iterator[None]:
    """Fail where anything outside is changed within, or a process is left afterwards."""
    before = state(cage)
    yield
    after, left = state(cage), cage.processes()
    changed = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    assert not changed, f"{', '.join(changed)} changed"
    assert not left, f"{', '.join(left)} still run"


def state(cage: Cage) -> dict[str, tuple[object, ...]]:
    paths = [
        path for path in (cage.outside, *cage.outside.rglob("*"), *cage.folder.parent.iterdir()) if path != cage.log
    ]
    return {str(path): _state(path) for path in paths}


def _state(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    if path.name == "folder":
        return (found.st_mode,)
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    return content, found.st_mode, found.st_uid, found.st_mtime_ns, found.st_ctime_ns, found.st_nlink


def eventually(holds: object) -> bool:
    deadline = time.monotonic() + 20
    while not (found := holds()) and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.02)
    return bool(found)
