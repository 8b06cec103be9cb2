"""What a confined command cannot reach, and which calls of the system are refused."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ci_tools import sandbox
from ci_tools.machine.process import output
from ci_tools.sandbox import Verdict, _confined, run_in_sandbox
from ci_tools.sandbox.groups import ForkServer
from tests.builders.cages import CALL, KINDS, LIBC, REASON, SOME, Cage, confines, made_cage, unchanged

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


pytestmark = pytest.mark.slow  # many real processes

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
    pytest.param("syscall(434, os.getppid(), 0)", "-1 38", id="waits-for-its-parent"),
    pytest.param("syscall(206, 65536, bytes(8))", "-1 38", id="takes-the-machines-asynchronous-requests"),
    pytest.param("clock_gettime((~os.getppid() << 3) | 2, bytes(16))", "-1 22", id="reads-its-parents-clock"),
    pytest.param("syscall(222, (~os.getppid() << 3) | 2, None, bytes(8))", "-1 22", id="sets-a-timer-by-its-parent"),
    pytest.param("clock_gettime((~0 << 3) | 2, bytes(16))", "0 0", id="reads-its-own-clock"),
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


LOADER = "/lib64/ld-linux-x86-64.so.2" if platform.machine() == "x86_64" else "/lib/ld-linux-aarch64.so.1"
# What confined code can do all the same: docs/explanation/evidence.md says so, and says why.
WITHIN_REACH = [
    pytest.param("print(os.stat(outside + '/secret').st_size > 0)", "True", id="asks-for-the-size-of-a-file"),
    pytest.param(
        "print(os.stat(outside + '/secret').st_mtime > 0, os.path.exists(outside + '/none'))",
        "True False",
        id="asks-how-old-a-file-is-and-whether-one-exists",
    ),
    pytest.param(
        "print(os.sched_getaffinity(0) == os.sched_getaffinity(parent))", "True", id="uses-as-many-processors-as-others"
    ),
    pytest.param(
        "print(time.time() > 0, time.clock_gettime(time.CLOCK_BOOTTIME) > 0)",
        "True True",
        id="reads-the-machines-clocks",
    ),
    pytest.param("os.symlink(outside, 'l'); print(os.path.realpath('l') == outside)", "True", id="follows-a-link"),
    pytest.param(
        "import fcntl; fcntl.flock(open(sys.executable), fcntl.LOCK_SH); print('locked')", "locked", id="locks-a-file"
    ),
    pytest.param(
        "shutil.copyfile('/bin/echo', 'a'); print(os.access('a', os.X_OK), flush=True)\n"
        f"subprocess.run([{LOADER!r}, './a', 'ran'])",
        "False\nran",
        id="runs-its-own-program-by-the-loader",
    ),
    pytest.param(
        "f = os.open('a', os.O_CREAT | os.O_WRONLY, 0o755); os.write(f, b'#!/bin/sh\\necho ran\\n'); os.close(f)\n"
        "subprocess.run(['./a'])",
        "ran",
        id="runs-a-program-that-it-created-as-one",
    ),
    pytest.param("print(os.getpgid(parent) > 0)", "True", id="asks-for-the-group-of-a-process"),
    pytest.param("print(os.getpriority(os.PRIO_PROCESS, 1) < 20)", "True", id="asks-for-the-priority-of-a-process"),
    pytest.param("print(len(os.sched_getaffinity(1)) > 0)", "True", id="asks-for-the-processors-of-a-process"),
    pytest.param("print(os.sched_getscheduler(1) >= 0)", "True", id="asks-how-a-process-is-scheduled"),
    pytest.param(
        "try: os.kill(1 << 22, 0)\nexcept ProcessLookupError: print('none')",
        "none",
        id="asks-whether-a-process-is-there",
    ),
]


@pytest.fixture(scope="module", params=KINDS)
def acted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, server: ForkServer | None
) -> Iterator[Acted]:
    if REASON:
        pytest.skip(REASON)
    with made_cage(tmp_path_factory.mktemp("acts"), server if request.param == "forked" else None) as cage:
        of_status = {code: code for code in codes(OF_STATUS)}
        acts = {code: code for code in codes(OUT_OF_REACH) + codes(WITHIN_REACH)}
        acts |= {call: LIBC + CALL.format(call=call) for call in codes(CALLS)}
        yield act(cage, of_status, lent=(cage.outside,)) | act(cage, acts)


def codes(table: list[ParameterSet]) -> list[str]:
    return [str(row.values[0]) for row in table]


@pytest.mark.parametrize(("code", "error"), OUT_OF_REACH)
def test_what_is_outside_is_out_of_reach(code: str, error: str, acted: Acted) -> None:
    status, said = acted[code]
    assert (status, said.splitlines()[-1][: len(error)]) == (1, error), said


@pytest.mark.parametrize(("code", "said"), WITHIN_REACH)
def test_what_the_documentation_admits_is_possible(code: str, said: str, acted: Acted) -> None:
    assert acted[code] == (0, f"{said}\n")


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
        from ci_tools.sandbox._confined import *
        from ci_tools.sandbox._confined import _restrict_calls
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _restrict_calls(libc, program(ARCHITECTURES[platform.machine()], {version}))
        try: {code}
        except OSError as e: print(e.errno)
    """
    assert output([sys.executable, "-c", script], cwd=Path(sandbox.__file__).parents[2]) == str(answer)


HEADERS = {
    "x86_64": "#include <asm/unistd_64.h>",
    "aarch64": "#define __BITS_PER_LONG 64\n#define __ARCH_WANT_MEMFD_SECRET\n#define __ARCH_WANT_SYS_CLONE3\n"
    "#include <asm-generic/unistd.h>",
}
TABLES = (
    "ABSENT",
    "CLOCKS",
    "FORBIDDEN",
    "NETWORK",
    "ATTRIBUTES",
    "BY_REFERENCE",
    "PRETENDED",
    "SIGNALS",
    "TRUNCATION",
    "OF_ITSELF",
)
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
