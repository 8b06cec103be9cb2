"""Starts every program of Fatwheel's: its output goes to a log, its time is limited, what it started ends with it.

A program that is not the project's own starts as a stranger, and reads nothing of the project: it stands in `NOWHERE`
unless its caller names a folder, and a module of Python's is started by `start_module`.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.addresses import redact
from ci_tools.errors import MachineError

if TYPE_CHECKING:
    from threading import Event

LOG = logging.getLogger(__name__)

# The root, where nothing is a project's: pip, uv and others also read the folders above the one that they start in.
NOWHERE = Path(Path(sys.executable).anchor)
ISOLATED = "-I"  # Python then imports nothing from the folder it starts in, and heeds no variable such as PYTHONPATH
# `-I` also hides what is installed for one user, as Fatwheel may be.
FROM = "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module(sys.argv.pop(1), None, '__main__', True)"
# Windows has no process groups that could be killed; there the command runs without the script.
LIFELINE = (sys.executable, "-I", "-S", str(Path(__file__).with_name("_lifeline.py"))) if os.name == "posix" else ()
INHERITED = (
    *("ALLUSERSPROFILE", "APPDATA", "COMSPEC", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "PATHEXT"),  # of Windows, which
    *("PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432"),  # other systems do
    *("SYSTEMDRIVE", "WINDIR"),  # not set; without PROCESSOR_ARCHITECTURE, Python before 3.12 does not know its machine
    *("CARGO_HOME", "RUSTUP_HOME"),  # of Rust's tools, if not below HOME: rustup's `cargo` finds no compiler then
    *("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "USER", "USERPROFILE"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_DIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"),
)
# The options of where pip looks and how it connects. All others change what it installs, so they are dropped.
OF_PIP = (
    "CACHE_DIR CERT CLIENT_CERT CONFIG_FILE DEFAULT_TIMEOUT DISABLE_PIP_VERSION_CHECK EXTRA_INDEX_URL FIND_LINKS "
    "INDEX_URL KEYRING_PROVIDER NO_CACHE_DIR NO_INDEX PROXY RETRIES TIMEOUT TRUSTED_HOST USE_FEATURE"
)
INHERITED_OF_PIP = tuple(f"PIP_{option}" for option in OF_PIP.split())
# Those of them and of twine that name a path.
PATHS = (
    *("PIP_CACHE_DIR", "PIP_CERT", "PIP_CLIENT_CERT", "PIP_CONFIG_FILE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR"),
    *("SSL_CERT_FILE", "TWINE_CERT", "UV_CACHE_DIR"),
)
INHERITED_OF_UV = ("UV_CACHE_DIR", "UV_OFFLINE")
# Set while work runs in the background: once the event is set, its command is killed, and a further one ends at once.
STOP: ContextVar[Event | None] = ContextVar("STOP", default=None)
LOOK = 0.1  # seconds between two looks at that event
PATIENCE = 10.0  # seconds in which _lifeline.py has to end the processes of a command


class Ended(NamedTuple):
    """How a command ended: its status, how long it took, and where its output is."""

    status: int
    seconds: float
    timed_out: bool
    log: Path
    start: int  # the offset in the log, in bytes, at which its output begins

    @property
    def signal(self) -> str:
        """The signal that ended it, such as SIGSEGV, from a status above 128 as a shell gives it; "" for any other."""
        return next((one.name for one in signal.Signals if one == self.status - 128), "")


def clean_environment(environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return the variables a command may see: the few that describe this machine and its package index, and `extra`.

    A stray CFLAGS or TORCH_CUDA_ARCH_LIST in the caller's shell would silently change the build.
    """
    kept = {name: environ[name] for name in (*INHERITED, *INHERITED_OF_PIP, *INHERITED_OF_UV) if name in environ}
    return {**kept, "PYTHONNOUSERSITE": "1", **extra}


def anchor(environ: MutableMapping[str, str]) -> None:
    """Make the paths in a user's variables independent of the folder that a program starts in.

    A relative folder on PATH is dropped, as by Go (`exec.ErrDot`): the programs there are the project's.
    """
    if path := environ.get("PATH"):
        environ["PATH"] = os.pathsep.join(filter(os.path.isabs, path.split(os.pathsep)))
    for name in PATHS:
        if environ.get(name):
            environ[name] = os.path.abspath(environ[name])  # noqa: PTH100 - a link may be meant
    if links := environ.get("PIP_FIND_LINKS"):
        words = (os.path.abspath(word) if os.path.exists(word) else word for word in links.split())  # noqa: PTH100, PTH110
        environ["PIP_FIND_LINKS"] = " ".join(words)
    if os.name == "nt":
        environ["NoDefaultCurrentDirectoryInExePath"] = "1"  # Windows looks for programs there first


@functools.cache
def start_module(name: str, before: str = "") -> tuple[str, ...]:
    """Return the start of a command that runs a package of Fatwheel's own, like `python -m`, but isolated.

    `before` is code that the same process runs first.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - a plan seldom needs it

    found = find_spec(name)
    home = Path(found.origin).parents[1] if found and found.origin else Path(sys.prefix)
    if not before and any(home.is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix)):
        return sys.executable, ISOLATED, "-m", name
    return sys.executable, ISOLATED, "-c", before + FROM, str(home), name


def run(
    command: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Ended:
    """Run `command` with its output appended to `log`; raise MachineError if it cannot be started, or was stopped.

    It starts in `cwd`, by default `NOWHERE`; a `Path` in it is one from here, made absolute. `timeout` is in
    seconds. On a timeout, on an interrupt, or when this process is killed, all processes that the command started are
    killed, compilers included, whatever their process group.
    """
    words = _spell(command)
    LOG.debug("run %s", redact(" ".join(words)))
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("ab") as sink:
        sink.write(f"$ {redact(' '.join(words))}\n".encode())
        sink.flush()
        start = sink.tell()
        with _group(words, sink.fileno(), cwd or NOWHERE, env) as process:
            try:
                status, timed_out = _wait(process, timeout), False
            except subprocess.TimeoutExpired:
                status, timed_out = -signal.SIGKILL, True
    return Ended(status, time.monotonic() - started, timed_out, log, start)


def _spell(command: Sequence[str | Path]) -> list[str]:
    """Return a command's words, with absolute paths; a program without a folder is looked for on PATH."""
    by_name = Path(command[0]).name == str(command[0])
    return [
        str(one.absolute() if isinstance(one, Path) and (at or not by_name) else one) for at, one in enumerate(command)
    ]


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> int:
    """Return a command's exit status; raise TimeoutExpired, or MachineError once the background work is stopped."""
    stop = STOP.get()
    if stop is None:
        return process.wait(timeout)
    started = time.monotonic()
    while not stop.is_set():
        with suppress(subprocess.TimeoutExpired):
            return process.wait(LOOK)
        if timeout is not None and time.monotonic() - started > timeout:
            raise subprocess.TimeoutExpired(process.args, timeout)
    raise MachineError("stopped: the run has ended")


@contextmanager
def _group(
    command: Sequence[str], sink: int, cwd: Path, env: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the command running in its own process group; at the end, kill all processes it started."""
    if shutil.which(command[0], path=(env or os.environ).get("PATH")) is None:
        raise MachineError(f"{command[0]} cannot be started: there is no such command")
    process = subprocess.Popen(
        [*LIFELINE, *command],
        stdin=subprocess.PIPE,
        stdout=sink,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill all processes that the command started, including those it left behind; the group may have ended already."""
    if process.stdin:
        process.stdin.close()  # tells _lifeline.py to kill the processes in other groups
    if os.name == "posix":
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        with suppress(ProcessLookupError, PermissionError):  # macOS raises the latter for a group that is ending
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def output(
    command: Sequence[str | Path],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 60,
    encoding: str | None = None,
    text: str = "",
) -> str | None:
    """Return the output of `command`, stripped; None if it fails, is missing, or takes more than `timeout` seconds.

    It starts as for `run`, and reads `text`. `encoding` is by default this machine's.
    """
    words = _spell(command)
    LOG.debug("run %s", redact(" ".join(words)))
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            encoding=encoding,
            errors="replace",
            cwd=cwd or NOWHERE,
            env=env,
            timeout=timeout,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def tail(log: Path, lines: int = 25, start: int = 0) -> str:
    """Return the last `lines` lines of a log, from the byte `start` on."""
    with log.open("rb") as file:
        file.seek(start)
        return b"".join(deque(file, maxlen=lines)).decode(errors="replace").rstrip()


def complaint(ended: Ended, most: int = 400) -> str:
    """Return the reason that a failed command printed: its ERROR lines or its last line, cut to `most` characters."""
    lines = tail(ended.log, 40, ended.start).splitlines()
    errors = [line for line in lines if line.startswith(("ERROR", "error"))]
    return "; ".join(errors or lines[-1:])[:most]
