"""How a command ends, what it leaves, and what cannot be started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ci_tools import sandbox
from ci_tools.errors import MachineError
from ci_tools.sandbox import Verdict, run_in_sandbox
from tests.builders.cages import DAEMON, SOME, Cage, confines, eventually, unchanged, with_imports

pytestmark = pytest.mark.slow  # many real processes


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
def test_a_signal_to_its_whole_group_leaves_nothing(cage: Cage) -> None:
    with unchanged(cage):
        ended = cage.run("os.fork()\nos.killpg(0, signal.SIGKILL)\ntime.sleep(600)")
    assert ended.verdict is Verdict.ENDED
    assert ended.status == 128 + signal.SIGKILL


@confines
def test_a_command_ends_with_who_asked_for_it(cage: Cage) -> None:
    code = f"""if True:
        from pathlib import Path
        from ci_tools.sandbox import Limits, run_in_sandbox
        folder = Path({str(cage.folder)!r})
        daemon = "import os, signal, time\\n" + {textwrap.dedent(DAEMON)!r} + "time.sleep(600)"
        run_in_sandbox([{sys.executable!r}, "-I", "-S", "-c", daemon], folder=folder, readable=[], env={{}},
                     log=Path({str(cage.log)!r}), limits=Limits(600, 1 << 30, 16, 1 << 20))
    """
    asker = subprocess.Popen([sys.executable, "-c", code], cwd=Path(sandbox.__file__).parents[2])
    assert eventually((cage.folder / "started").exists)
    asker.kill()
    asker.wait()
    assert eventually(lambda: not cage.processes())


@confines
def test_a_compiler_makes_libraries(cage: Cage) -> None:
    (cage.folder / "a.c").write_text("int made(void) { return 42; }\n")
    code = "subprocess.run(['gcc', '-shared', 'a.c', '-o', 'a.so'], check=True)\nprint(ctypes.CDLL('./a.so').made())"
    ended = cage.run(code, PATH=os.defpath, TMPDIR=str(cage.folder))
    assert (ended.status, cage.said(ended)) == (0, "42\n")


def test_what_cannot_be_started_is_the_machines_fault(cage: Cage) -> None:
    with pytest.raises(MachineError, match="no-such-command cannot be started: there is no such command"):
        run_in_sandbox(["no-such-command"], folder=cage.folder, readable=[], env={}, log=cage.log, limits=SOME)


def test_a_log_in_the_folder_is_refused(cage: Cage) -> None:
    with pytest.raises(MachineError, match="expected a log outside"):
        run_in_sandbox(["true"], folder=cage.folder, readable=[], env={}, log=cage.folder / "log", limits=SOME)


@confines
def test_a_cage_within_a_cage_says_why_it_cannot_be(cage: Cage) -> None:
    root = Path(sandbox.__file__).parents[2]
    code = f"sys.path.insert(0, {str(root)!r})\nfrom ci_tools.sandbox import why_not\nprint(repr(why_not()))"
    command = [sys.executable, "-I", "-S", "-c", with_imports(code)]
    env = {"TMPDIR": str(cage.folder)}
    ended = run_in_sandbox(command, folder=cage.folder, readable=[root], env=env, log=cage.log, limits=SOME)
    assert "Operation not permitted" in cage.said(ended)
