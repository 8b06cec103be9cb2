"""A program in a process for each call, forked from one that has every module loaded.

A new Python spends half a second on imports before the first line of a verb runs, and one that imports torch a second
or more; a fork spends none. Each call still has a process, a working folder, variables and output of its own. Run it as
`python -m tests.servers.prepared SOCKET PROGRAM PID`, which ends after the process PID, or call `run_prepared`, which
starts one server of a program for all processes of a run of the tests. A call whose variables change how Python starts
gets a new Python all the same; a test that sends signals starts one by itself.

A program is a module with two functions, `load`, which the server calls, and `run`, which a fork calls with the
arguments; `COMMAND` is what stands for the program in a command line of Python.
"""

from __future__ import annotations

import array
import gc
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

from tests.servers.calling import ask, call

ROOT = Path(__file__).parents[2]
FATWHEEL = "tests.servers.fatwheel_program"
PIP = "tests.servers.pip_program"
TORCH = "tests.servers.torch_program"
S3 = "tests.servers.s3"
SCRIPTS = "tests.servers.script_program"
HOOKS = "tests.servers.hook_program"


class Other(NamedTuple):
    """A program that another Python than this one runs, with a folder that it imports from."""

    program: str
    python: Path
    path: Path


class Called(NamedTuple):
    """How a call ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def run_prepared(
    arguments: Sequence[str],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str],
    timeout: float = 600,
    program: str | Other = FATWHEEL,
    together: bool = False,
) -> Called:
    """Run a program, which is `fatwheel` by default, with these arguments; raise TimeoutError after `timeout` seconds.

    `program` is the name of its module. `together`, its errors are in its output, as a terminal shows them.
    """
    if isinstance(program, str) and _changes_python(env):
        command = [sys.executable, *importlib.import_module(program).COMMAND, *arguments]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT if together else subprocess.PIPE}
        done = subprocess.run(command, cwd=cwd, env=env, check=False, timeout=timeout, **streams)
        return Called(done.returncode, _text(done.stdout), _text(done.stderr or b""))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        files = (out.fileno(), (out if together else err).fileno())
        where = str(cwd or Path.cwd())
        status = call(address_of(program), arguments, cwd=where, env=env, files=files, timeout=timeout)
        for file in (out, err):
            file.seek(0)
        return Called(-signal.SIGKILL if status is None else status, _text(out.read()), _text(err.read()))


@contextmanager
def run_server(program: str) -> Iterator[str]:
    """Run a program that prints a line once it answers, until the body ends; yield that line.

    A further line is about a client that was wrong: it fails the body that ends well.
    """
    read, write = os.pipe()
    with socket.socket(socket.AF_UNIX) as channel, os.fdopen(read) as said:
        try:
            ask(channel, address_of(program), (), cwd=str(ROOT), env=os.environ, files=(write, 2))
        finally:
            os.close(write)
        line = said.readline().strip()
        assert line, f"{program} has ended"
        yield line
        os.set_blocking(read, False)
        flaws = said.buffer.read()
    assert not flaws, flaws.decode()


def _changes_python(env: Mapping[str, str]) -> bool:
    """Whether a Python with these variables starts, or writes, in another way than this one."""
    names = {name for name in {*env, *os.environ} if name.startswith(("PYTHON", "LD_")) or name in {"LANG", "LC_ALL"}}
    return any(env.get(name) != os.environ.get(name) for name in names - {"PYTHONPATH", "PYTHONUNBUFFERED"})


def _text(output: bytes) -> str:
    return output.decode(errors="surrogateescape").replace("\r\n", "\n")


@cache
def address_of(program: str | Other) -> str:
    """Start this run's server of a program, unless it runs already; return its address, which `calling` calls."""
    from filelock import FileLock  # noqa: PLC0415 - another Python, which runs the server, has none

    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{time.time_ns()}"
    whole = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()  # the process of the whole run
    name = program.rpartition(".")[2] if isinstance(program, str) else program.path.name
    folder = Path(tempfile.gettempdir()) / f"fatwheel-tests-{run}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    address = str(folder / "prepared")
    with FileLock(folder / "lock"):
        if not Path(address).exists():
            _start_at(address, program, whole)
    return address


def _start_at(address: str, program: str | Other, whole: int) -> None:
    """Start a server of a program that ends after a process."""
    python, variables = sys.executable, {**os.environ, "PYTHONPATH": str(ROOT)}
    if not isinstance(program, str):
        program, python, path = program.program, str(program.python), program.path
        variables |= {"PYTHONPATH": f"{path}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, "-m", __name__, address, program, str(whole)]
    errors = Path(address).with_name("errors")
    with errors.open("wb") as said:  # it outlives this process: whoever reads what this one says waits for its end only
        streams = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
        process = subprocess.Popen(command, env=variables, start_new_session=True, **streams)
    while not Path(address).exists():
        if process.poll() is not None:
            raise RuntimeError(f"the prepared {program} did not start:\n{errors.read_text(errors='replace')}")
        time.sleep(0.01)
    process.returncode = 0  # it outlives this process, which does not wait for it


# ---------------------------------------------------------------- the server


def serve(address: str, program: str, whole: int) -> NoReturn:
    """Answer each connection in a fork of its own; end soon after a process has ended."""
    module = importlib.import_module(program)
    module.load()
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page that it looks at
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{address}.new")
        listener.listen(64)
        listener.settimeout(5)
        Path(f"{address}.new").rename(address)
        while _is_there(whole):
            try:
                channel, _ = listener.accept()
            except socket.timeout:  # noqa: UP041 - which is no TimeoutError to Python 3.9, which runs old pips
                continue
            if os.fork() == 0:
                listener.close()
                _answer(channel, module.run)
            channel.close()
    shutil.rmtree(Path(address).parent)
    sys.exit()


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _answer(channel: socket.socket, run: Callable[[Sequence[str]], int]) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel.setblocking(True)  # noqa: FBT003 - its signature
    head, files, *_ = socket.recv_fds(channel, 8, 2)
    request = b""
    while len(request) < int.from_bytes(head, "big"):
        request += channel.recv(1 << 20)
    threading.Thread(target=_end_with, args=[channel], daemon=True).start()
    status = 1
    try:
        status = _become(run, *json.loads(_text(request)), *array.array("i", files))
    except BaseException:  # noqa: BLE001 - as a Python that ends prints it
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the caller may go as soon as it knows how this ended
    channel.send(bytes([status & 255]))
    os._exit(status & 255)


def _end_with(channel: socket.socket) -> None:
    """End this process as a terminal that is closed would, once its caller has gone."""
    if channel.recv(1) == b"":
        os.kill(os.getpid(), signal.SIGTERM)


def _become(
    run: Callable[[Sequence[str]], int], arguments: list[str], cwd: str, variables: dict[str, str], out: int, err: int
) -> int:
    """Run the program as a process of its own with these files, folder and variables would."""
    os.setpgid(0, 0)
    for descriptor, number in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
        os.dup2(descriptor, number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(variables)
    time.tzset()
    tempfile.tempdir = None
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] - beside its errors, a line is where it was said
    try:
        return run(arguments)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
