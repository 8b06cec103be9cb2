from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from ci_tools.errors import MachineError
from ci_tools.machine import sandbox
from ci_tools.machine.process import output
from ci_tools.machine.sandbox import (
    Confined,
    Limits,
    Verdict,
    _confined,
    run_in_sandbox,
    why_not,
)
from ci_tools.machine.sandbox.groups import ForkServer
from ci_tools.machine.sandbox.leftovers import clear
from ci_tools.machine.sandbox.usage import living, living_by_ps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from _pytest.mark import ParameterSet

pytestmark = pytest.mark.slow  # many real processes

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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer | None]:
    if REASON:
        yield None
        return
    script = tmp_path_factory.mktemp("server") / "prepared.py"
    script.write_text(PREPARED)
    with closing(ForkServer([sys.executable, "-I", "-S", script], {})) as server:
        yield server


KINDS = ["started", pytest.param("forked", marks=confines)]


@pytest.fixture(params=KINDS)
def cage(request: pytest.FixtureRequest, tmp_path: Path, server: ForkServer | None) -> Iterator[Cage]:
    with made_cage(tmp_path, server if request.param == "forked" else None) as cage:
        yield cage


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
    assert (state(cage), cage.processes()) == (before, [])


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
def test_a_limit_ends_everything(code: str, verdict: Verdict, limits: dict[str, float], cage: Cage) -> None:
    with unchanged(cage):
        ended = cage.run(code, SOME._replace(**limits))  # type: ignore[arg-type]
    assert (ended.verdict, ended.status) == (verdict, -signal.SIGKILL), cage.said(ended)[-2000:]
    assert ended.seconds < SOME.seconds
    assert cage.log.stat().st_size <= SOME.written + ended.start


@confines
def test_a_busy_machine_ends_nothing_that_an_idle_one_lets_finish(cage: Cage) -> None:
    """Six others for each processor, as nice as the command, leave it a seventh of the time.

    Each has a session of its own: Linux shares the time among sessions first (sched(7), autogroup).
    """
    others = [sys.executable, "-I", "-S", "-c", "import os\nos.nice(10)\nwhile True: pass"]
    crowd = [subprocess.Popen(others, start_new_session=True) for _ in range(6 * (os.cpu_count() or 1))]
    try:
        ended = cage.run("while time.process_time() < 0.2: pass", SOME._replace(seconds=0.8))
    finally:
        for process in crowd:
            process.kill()
        for process in crowd:
            process.wait()
    assert ended.verdict is Verdict.ENDED
    assert ended.seconds > 0.8, "this machine was not busy"


@confines
@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        pytest.param("os._exit(7)", 7, "", id="exits"),
        pytest.param("print('out', flush=True); os.write(2, b'err')", 0, "out\nerr", id="says"),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", 128 + 9, "", id="kills-itself"),
        pytest.param("input()", 1, "EOFError: EOF when reading a line", id="asks"),
        pytest.param("import missing_module", 1, "No module named 'missing_module'", id="needs-what-is-missing"),
        pytest.param("os.environ.pop('LC_CTYPE', 0); print(os.environ)", 0, "environ({'WORD': 'up'})", id="variables"),
        pytest.param("print(os.getcwd().rpartition('/')[2])", 0, "folder", id="folder"),
        pytest.param("subprocess.run(['/bin/sh', '-c', 'echo $((40 + 2))'])", 0, "42", id="starts-another"),
        pytest.param("a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))", 0, "b'x'", id="talks-to-itself"),
        pytest.param("import asyncio; print(asyncio.run(asyncio.sleep(0, 'slept')))", 0, "slept", id="runs-a-loop"),
        pytest.param("open('a', 'w').write('x'); shutil.copy2('a', 'b'); print(open('b').read())", 0, "x", id="copies"),
        pytest.param(
            "os.close(os.open('a', os.O_CREAT, 0o777)); os.chmod('a', 0); print(oct(os.stat('a').st_mode))",
            0,
            "0o100755",
            id="makes-a-program",
        ),
        pytest.param("print([n for n in range(3, 999) if not os.get_inheritable(n)])", 1, "Bad file", id="descriptors"),
        pytest.param("print(sys.stdout.isatty())", 0, "False", id="no-terminal"),
        pytest.param("import resource; print(resource.getrlimit(resource.RLIMIT_CORE))", 0, "(0, 0)", id="no-core"),
    ],
)
def test_a_confined_command_is_told_from_its_limits(code: str, status: int, said: str, cage: Cage) -> None:
    with unchanged(cage):
        ended = cage.run(code, WORD="up")
    assert (ended.verdict, ended.status) == (Verdict.ENDED, status), cage.said(ended)
    assert said in cage.said(ended)


# ---------------------------------------------------------------- acts

# Runs each of some acts in a process and a folder of its own, and prints how it ended and what it said.
ACTING = """
import ctypes, json, os, shutil, signal, socket, subprocess, sys, time, traceback
parent = os.getppid()  # of the confined process
answers = {}
for act, code in acts.items():
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        for descriptor in (1, 2):
            os.dup2(writable, descriptor)
        try:
            os.mkdir(str(os.getpid()))
            os.chdir(str(os.getpid()))
            exec(code)
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    os.close(writable)
    with open(readable) as said:
        text = said.read()
    answers[act] = (os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text)
print(json.dumps(answers))
"""
OUT_OF_REACH = [
    pytest.param("open(outside + '/new', 'w')", "PermissionError", id="writes"),
    pytest.param("open('../../outside/secret', 'a')", "PermissionError", id="writes-above"),
    pytest.param("os.symlink(outside, 'l'); open('l/secret', 'w')", "PermissionError", id="writes-through-a-link"),
    pytest.param("open('a', 'w'); os.rename('a', outside + '/a')", "PermissionError", id="moves-out"),
    pytest.param("open('a', 'w'); os.link('a', outside + '/a')", "PermissionError", id="links-out"),
    pytest.param("os.link(outside + '/secret', 'a')", "OSError: [Errno 18]", id="links-in"),
    pytest.param("os.rename(outside + '/secret', 'a')", "PermissionError", id="moves-in"),
    pytest.param("os.truncate(outside + '/secret', 0)", "PermissionError", id="truncates"),
    pytest.param("os.unlink(outside + '/secret')", "PermissionError", id="removes"),
    pytest.param("os.rmdir(outside + '/deep')", "PermissionError", id="removes-a-folder"),
    pytest.param("os.mkdir(outside + '/new')", "PermissionError", id="makes-a-folder"),
    pytest.param("os.mkfifo(outside + '/new')", "PermissionError", id="makes-a-pipe"),
    pytest.param("os.symlink('a', outside + '/new')", "PermissionError", id="makes-a-link"),
    pytest.param("os.mknod('disk', 0o60600, 0x800)", "PermissionError", id="makes-a-device"),
    pytest.param("os.setxattr(outside + '/secret', 'user.a', b'x')", "PermissionError", id="sets-an-attribute"),
    pytest.param("os.getxattr(outside + '/secret', 'user.a')", "OSError: [Errno 95]", id="reads-an-attribute"),
    pytest.param("os.listxattr(outside + '/secret')", "OSError: [Errno 95]", id="lists-attributes"),
    pytest.param("open(outside + '/secret')", "PermissionError", id="reads"),
    pytest.param("os.symlink(outside, 'l'); open('l/secret')", "PermissionError", id="reads-through-a-link"),
    pytest.param("os.listdir(outside)", "PermissionError", id="lists"),
    pytest.param("open('/etc/passwd')", "PermissionError", id="reads-the-users"),
    pytest.param("open(f'/proc/{parent}/environ')", "PermissionError", id="reads-variables-of-others"),
    pytest.param("open('/dev/shm/' + os.path.basename(outside), 'w')", "PermissionError", id="shares-memory"),
    pytest.param("import mmap; mmap.mmap(-1, 4096)", "PermissionError", id="shares-memory-without-a-file"),
    pytest.param("open('/dev/zero')", "PermissionError", id="maps-zeros"),
    pytest.param("os.memfd_create('m')", "PermissionError", id="hides-memory"),
    pytest.param("socket.socket(socket.AF_INET)", "PermissionError", id="tcp"),
    pytest.param("socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)", "PermissionError", id="udp"),
    pytest.param("socket.socket(socket.AF_UNIX)", "PermissionError", id="unix"),
    pytest.param("socket.socket(16, socket.SOCK_RAW)", "PermissionError", id="netlink"),
    pytest.param("socket.socketpair(type=socket.SOCK_DGRAM)", "PermissionError", id="pair-of-datagrams"),
    pytest.param("socket.send_fds(socket.socketpair()[0], [b'x'], [1])", "PermissionError", id="sends-a-descriptor"),
    pytest.param("socket.socketpair()[0].setsockopt(1, 7, 1 << 30)", "PermissionError", id="widens-a-buffer"),
    pytest.param("os.setsid()", "PermissionError", id="new-session"),
    pytest.param("os.setpgid(0, 0)", "PermissionError", id="new-group"),
    pytest.param("subprocess.run(['true'], start_new_session=True)", "PermissionError", id="starts-a-session"),
    pytest.param("os.kill(parent, 9)", "PermissionError", id="kills-its-parent"),
    pytest.param("os.kill(1, 0)", "PermissionError", id="signals-the-first-process"),
    pytest.param("os.setpriority(os.PRIO_PROCESS, parent, 19)", "PermissionError", id="slows-its-parent"),
    pytest.param(
        "import resource; resource.prlimit(parent, resource.RLIMIT_CPU, (0, 0))",
        "PermissionError",
        id="limits-its-parent",
    ),
    pytest.param(
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))", "ValueError", id="lifts-its-limits"
    ),
    pytest.param("os.chroot('.')", "PermissionError", id="changes-the-root"),
    pytest.param("os.setuid(12345)", "PermissionError", id="becomes-another"),
    pytest.param("import fcntl; fcntl.ioctl(1, 0x5412, b'x')", "OSError: [Errno 25]", id="types-for-the-user"),
    pytest.param("import fcntl; fcntl.fcntl(1, fcntl.F_SETOWN, 1)", "PermissionError", id="signals-by-descriptor"),
    pytest.param(
        "import fcntl; fcntl.fcntl(os.open('/usr/lib', 0), fcntl.F_NOTIFY, 1)", "PermissionError", id="is-notified"
    ),
    pytest.param(
        "import fcntl; fcntl.fcntl(open(sys.executable), fcntl.F_SETLEASE, 0)",
        "PermissionError",
        id="takes-a-lease",
    ),
]
OF_STATUS = [
    pytest.param("os.chmod(outside + '/secret', 0o777)", id="mode"),
    pytest.param("os.chown(outside + '/secret', 1, 1)", id="owner"),
    pytest.param("os.utime(outside + '/secret', (0, 0))", id="times"),
    pytest.param("os.fchmod(os.open(outside + '/secret', os.O_RDONLY), 0)", id="mode-by-descriptor"),
    pytest.param("os.utime(os.open(outside + '/secret', os.O_RDONLY), (0, 0))", id="times-by-descriptor"),
]
LIBC = "libc = ctypes.CDLL(None, use_errno=True)\n"
CALL = "print(libc.{call}, ctypes.get_errno())"
CALLS = [
    pytest.param("ptrace(0, 0, 0, 0)", "-1 1", id="is-traced"),
    pytest.param("unshare(0x10000000)", "-1 1", id="makes-a-user-namespace"),
    pytest.param("setns(0, 0)", "-1 1", id="enters-a-namespace"),
    pytest.param("mount(b'a', b'b', b'tmpfs', 0, None)", "-1 1", id="mounts"),
    pytest.param("syscall(321, 0, 0, 0)", "-1 1", id="loads-bpf"),
    pytest.param("syscall(425, 8, 0)", "-1 13", id="makes-a-ring"),
    pytest.param("syscall(250, 0, -3, 0)", "-1 1", id="uses-keys"),
    pytest.param("syscall(56, 0x10000011, 0, 0, 0, 0)", "-1 1", id="clones-into-a-namespace"),
    pytest.param("syscall(56, 0x10900, 0, 0, 0, 0)", "-1 1", id="starts-a-thread-with-descriptors-of-its-own"),
    pytest.param("syscall(435, 0, 0)", "-1 38", id="clones-unseen"),
    pytest.param("inotify_init()", "-1 1", id="watches-files"),
    pytest.param("inotify_add_watch(0, b'/', 1)", "-1 1", id="watches-a-file"),
    pytest.param("name_to_handle_at(-100, b'/', None, None, 0)", "-1 1", id="asks-for-a-handle"),
    pytest.param("syscall(457, 0, 0, 0, 0)", "-1 1", id="asks-for-mounts"),
    pytest.param("syscall(241, b'a')", "-1 1", id="removes-a-queue"),
    pytest.param("vmsplice(1, None, 0, 0)", "-1 22", id="keeps-pages-in-a-pipe"),
    pytest.param("syscall(463, 0, 0, 0, 0)", "-1 38", id="calls-what-came-later"),
    pytest.param("syscall(0x40000000 + 39)", "-1 38", id="calls-through-x32"),
    pytest.param("prctl(39, 0, 0, 0, 0)", "1 0", id="has-no-new-privileges"),
]
Acted = dict[str, tuple[int, str]]


def act(cage: Cage, acts: Mapping[str, str], **options: Any) -> Acted:  # noqa: ANN401 - of `Cage.run`
    """Run all acts in one cage, which takes longer to make than any of them; return how each ended and what it said."""
    with unchanged(cage):
        ended = cage.run(f"acts = {acts!r}\n{ACTING}", **options)
    assert (ended.verdict, ended.status) == (Verdict.ENDED, 0), cage.said(ended)
    return {code: (status, said) for code, (status, said) in json.loads(cage.said(ended)).items()}


@pytest.fixture(scope="module", params=KINDS)
def acted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, server: ForkServer | None
) -> Iterator[Acted]:
    if REASON:
        pytest.skip(REASON)
    with made_cage(tmp_path_factory.mktemp("acts"), server if request.param == "forked" else None) as cage:
        of_status = {code: code for code in codes(OF_STATUS)}
        acts = {code: code for code in codes(OUT_OF_REACH)}
        acts |= {call: LIBC + CALL.format(call=call) for call in codes(CALLS)}
        yield act(cage, of_status, lent=(cage.outside,)) | act(cage, acts)


def codes(table: list[ParameterSet]) -> list[str]:
    return [str(row.values[0]) for row in table]


@pytest.mark.parametrize(("code", "error"), OUT_OF_REACH)
def test_what_is_outside_is_out_of_reach(code: str, error: str, acted: Acted) -> None:
    status, said = acted[code]
    assert (status, said.splitlines()[-1][: len(error)]) == (1, error), said


@pytest.mark.parametrize("code", OF_STATUS)
def test_modes_owners_and_times_stay_as_they_are(code: str, acted: Acted) -> None:
    assert acted[code] == (0, "")


@pytest.mark.parametrize(("call", "answer"), CALLS)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86_64")
def test_a_system_call_is_refused(call: str, answer: str, acted: Acted) -> None:
    assert acted[call][1].strip() == answer


@confines
def test_nothing_is_heard_outside(cage: Cage) -> None:
    listeners = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
    listeners[1].bind(str(cage.outside / "socket"))
    listeners[1].listen()
    addresses = [listener.getsockname() for listener in listeners]
    code = f"for address in {addresses}:\n try: socket.socket(1 if isinstance(address, str) else 2).connect(address)\n"
    ended = cage.run(code + " except PermissionError as e: print(e)")
    for listener in listeners:
        listener.settimeout(0)
        with pytest.raises(BlockingIOError), listener:
            listener.accept()
    assert cage.said(ended).splitlines() == ["[Errno 13] Permission denied"] * 2


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


@confines
def test_a_daemon_ends_with_what_started_it(cage: Cage) -> None:
    with unchanged(cage):
        ended = cage.run(DAEMON)
    assert (ended.verdict, ended.status, (cage.folder / "started").exists()) == (Verdict.ENDED, 0, True)


@confines
def test_a_process_whose_first_thread_ended_is_ended(cage: Cage) -> None:
    code = """
        import threading
        def go():
            time.sleep(0.2)
            open('alone', 'w').close()
            time.sleep(600)
        if os.fork() == 0:
            threading.Thread(target=go).start()
            ctypes.CDLL(None).pthread_exit(None)
        while not os.path.exists('alone'): time.sleep(0.01)
    """
    with unchanged(cage):
        ended = cage.run(code)
    assert (ended.verdict, ended.status, (cage.folder / "alone").exists()) == (Verdict.ENDED, 0, True)


@confines
def test_memory_that_others_share_by_number_stays(cage: Cage) -> None:
    libc = ctypes.CDLL(None)
    segment = libc.shmget(0, 4096, 0o1600)  # IPC_CREAT
    try:
        ended = cage.run(LIBC + CALL.format(call=f"shmctl({segment}, 0, None)"))  # IPC_RMID
        assert (cage.said(ended).strip(), libc.shmctl(segment, 2, ctypes.create_string_buffer(512))) == ("-1 1", 0)
    finally:
        libc.shmctl(segment, 0, None)


@confines
def test_a_signal_to_its_whole_group_leaves_nothing(cage: Cage) -> None:
    with unchanged(cage):
        ended = cage.run("os.fork()\nos.killpg(0, signal.SIGKILL)\ntime.sleep(600)")
    assert ended.verdict is Verdict.ENDED
    assert ended.status == 128 + signal.SIGKILL


@confines
def test_a_command_ends_with_who_asked_for_it(cage: Cage) -> None:
    code = f"""if True:
        from pathlib import Path
        from ci_tools.machine.sandbox import Limits, run_in_sandbox
        folder = Path({str(cage.folder)!r})
        daemon = "import os, signal, time\\n" + {textwrap.dedent(DAEMON)!r} + "time.sleep(600)"
        run_in_sandbox([{sys.executable!r}, "-I", "-S", "-c", daemon], folder=folder, readable=[], env={{}},
                     log=Path({str(cage.log)!r}), limits=Limits(600, 1 << 30, 16, 1 << 20))
    """
    asker = subprocess.Popen([sys.executable, "-c", code], cwd=Path(sandbox.__file__).parents[3])
    assert eventually((cage.folder / "started").exists)
    asker.kill()
    asker.wait()
    assert eventually(lambda: not cage.processes())


@confines
def test_a_command_ends_with_the_process_that_forked_it(cage: Cage) -> None:
    with closing(ForkServer([sys.executable, "-I", "-S", "-c", PREPARED], {})) as server:
        cage = cage._replace(server=server)
        killer = threading.Thread(target=lambda: eventually((cage.folder / "started").exists) and server.process.kill())
        killer.start()
        with pytest.raises(MachineError, match="builds is gone: it was killed by SIGKILL"):
            cage.run(DAEMON + "    time.sleep(600)\n")
        killer.join()
    assert eventually(lambda: not cage.processes())


def test_a_prepared_process_says_why_it_cannot_serve() -> None:
    with pytest.raises(MachineError, match="builds is gone: ModuleNotFoundError: No module named 'a'"):
        ForkServer([sys.executable, "-I", "-S", "-c", "import a"], {})
    with pytest.raises(MachineError, match="no-such-command cannot be started: No such file or directory"):
        ForkServer(["no-such-command"], {})


@confines
def test_one_forked_process_knows_nothing_of_another(cage: Cage, server: ForkServer) -> None:
    cage = cage._replace(server=server)
    cage.run("import random; sys.left = 1; print('left', end=''); open('left', 'w')", LEFT="1")
    ended = cage.run("print(hasattr(sys, 'left'), 'LEFT' in os.environ, 'random' in sys.modules)")
    assert cage.said(ended) == "False False False\n"


def eventually(holds: object) -> bool:
    deadline = time.monotonic() + 20
    while not (found := holds()) and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.02)
    return bool(found)


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
def test_what_is_lent_can_be_read_and_not_written(cage: Cage) -> None:
    command = ["sh", "-c", f"cat {cage.outside}/secret; echo x > {cage.outside}/secret"]
    env = {"PATH": os.defpath}
    with unchanged(cage):
        ended = run_in_sandbox(
            command, folder=cage.folder, readable=[cage.outside / "secret"], env=env, log=cage.log, limits=SOME
        )
    assert ended.status == 2
    assert cage.said(ended).startswith("the secret")


@confines
def test_a_compiler_makes_libraries(cage: Cage) -> None:
    (cage.folder / "a.c").write_text("int made(void) { return 42; }\n")
    code = "subprocess.run(['gcc', '-shared', 'a.c', '-o', 'a.so'], check=True)\nprint(ctypes.CDLL('./a.so').made())"
    ended = cage.run(code, PATH=os.defpath, TMPDIR=str(cage.folder))
    assert (ended.status, cage.said(ended)) == (0, "42\n")


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
        pytest.param("while True: os.fork()", Verdict.TOO_MANY_PROCESSES, -9, id="forks-for-ever"),
    ],
)
def test_a_trusted_command_has_limits_alone(code: str, verdict: Verdict, status: int, cage: Cage) -> None:
    limits = SOME._replace(seconds=0.2) if verdict is Verdict.TIMED_OUT else SOME
    ended = cage.run(code, limits, trusted=True)
    assert (ended.verdict, ended.status, cage.processes()) == (verdict, status, [])


def test_what_cannot_be_started_is_the_machines_fault(cage: Cage) -> None:
    with pytest.raises(MachineError, match="no-such-command cannot be started: there is no such command"):
        run_in_sandbox(["no-such-command"], folder=cage.folder, readable=[], env={}, log=cage.log, limits=SOME)


def test_a_journal_that_cannot_be_made_is_the_machines_fault(cage: Cage) -> None:
    journal = cage.outside / "none" / "journal"
    with pytest.raises(MachineError, match="cannot be made, expected a folder that can have a FIFO"):
        run_in_sandbox(["true"], folder=cage.folder, readable=[], env={}, log=cage.log, limits=SOME, journal=journal)


@confines
def test_what_is_written_into_a_journal_stays(cage: Cage) -> None:
    journal = cage.outside / "journal"
    code = f"""
        os.write(os.open({str(journal)!r}, os.O_WRONLY), b'first')
        for change in (os.remove, os.chmod, lambda path: os.truncate(path, 0), lambda path: os.open(path, os.O_RDWR),
                       lambda path: os.open(path, os.O_RDONLY | os.O_NONBLOCK), lambda path: os.rename(path, 'a')):
            try: change({str(journal)!r})
            except (OSError, TypeError): pass
        os.write(os.open({str(journal)!r}, os.O_WRONLY), b' and last')
    """
    command = [sys.executable, "-I", "-S", "-c", with_imports(code)]
    ended = run_in_sandbox(command, folder=cage.folder, readable=[], env={}, log=cage.log, limits=SOME, journal=journal)
    assert (ended.status, ended.journal) == (0, b"first and last"), cage.said(ended)


def test_a_log_in_the_folder_is_refused(cage: Cage) -> None:
    with pytest.raises(MachineError, match="expected a log outside"):
        run_in_sandbox(["true"], folder=cage.folder, readable=[], env={}, log=cage.folder / "log", limits=SOME)


@confines
def test_a_cage_within_a_cage_says_why_it_cannot_be(cage: Cage) -> None:
    root = Path(sandbox.__file__).parents[3]
    code = f"sys.path.insert(0, {str(root)!r})\nfrom ci_tools.machine.sandbox import why_not\nprint(repr(why_not()))"
    command = [sys.executable, "-I", "-S", "-c", with_imports(code)]
    env = {"TMPDIR": str(cage.folder)}
    ended = run_in_sandbox(command, folder=cage.folder, readable=[root], env=env, log=cage.log, limits=SOME)
    assert "Operation not permitted" in cage.said(ended)


def test_whatever_a_command_made_can_be_removed(cage: Cage) -> None:
    cage.run("os.umask(0)\nfor _ in range(1200): os.mkdir('d'); os.chdir('d')\nos.mkdir('closed', 0)", trusted=True)
    clear(cage.folder)
    assert not cage.folder.exists()


def test_ps_and_proc_see_the_same_group() -> None:
    process = subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60"], start_new_session=True)
    assert eventually(lambda: len(living(process.pid)) == 3)
    seen = [{task.pid for task in look(process.pid)} for look in (living, living_by_ps)]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert (seen[0] == seen[1], eventually(lambda: not living(process.pid))) == (True, True)


@confines
@pytest.mark.parametrize(
    ("version", "code", "answer"),
    [
        pytest.param(5, "os.kill(os.getpid(), 0)", 1, id="signals-before-they-were-scoped"),
        pytest.param(5, "os.killpg(0, 0)", 1, id="signals-to-the-group"),
        pytest.param(2, "os.truncate('/dev/null', 0)", 13, id="truncation-before-it-was-a-right"),
    ],
)
def test_an_older_landlock_gets_a_stricter_filter(version: int, code: str, answer: int) -> None:
    script = f"""if True:
        import ctypes, os, platform
        from ci_tools.machine.sandbox._confined import *
        from ci_tools.machine.sandbox._confined import _restrict_calls
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _restrict_calls(libc, program(ARCHITECTURES[platform.machine()], {version}))
        try: {code}
        except OSError as e: print(e.errno)
    """
    assert output([sys.executable, "-c", script], cwd=Path(sandbox.__file__).parents[3]) == str(answer)


HEADERS = {
    "x86_64": "#include <asm/unistd_64.h>",
    "aarch64": "#define __BITS_PER_LONG 64\n#define __ARCH_WANT_MEMFD_SECRET\n#define __ARCH_WANT_SYS_CLONE3\n"
    "#include <asm-generic/unistd.h>",
}
TABLES = ("FORBIDDEN", "NETWORK", "ATTRIBUTES", "BY_REFERENCE", "PRETENDED", "SIGNALS", "TRUNCATION", "OF_ITSELF")
SINGLE = ("CLONE", "CLONE3", "MMAP", "IOCTL", "FCNTL", "SOCKETPAIR")
NEWER_THAN_THE_HEADERS = {"fchmodat2", "listmount", "statmount"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the headers of x86_64 are those of this machine")
@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_the_kernels(machine: str, tmp_path: Path) -> None:
    column = _confined.ARCHITECTURES[machine].column
    own = {name: numbers[column] for table in TABLES for name, numbers in getattr(_confined, table).items()}
    own |= {name.lower(): getattr(_confined, name)[column] for name in SINGLE}
    (tmp_path / "a.c").write_text("\n".join([HEADERS[machine], *(f"{name} = __NR_{name}" for name in own)]))
    lines = (output(["gcc", "-E", "-P", tmp_path / "a.c"]) or "").splitlines()
    kernel = dict(line.split(" = ") for line in lines if " = " in line)
    wrong = {name: (number, kernel[name]) for name, number in own.items() if kernel[name] not in _spelled(name, number)}
    assert {name for name in wrong if name not in NEWER_THAN_THE_HEADERS} == set()


def _spelled(name: str, number: int | None) -> set[str]:
    """Return how the preprocessor may show a number: one that is not there stays as it was written."""
    return {f"__NR_{name}"} if number is None else {str(number)}
