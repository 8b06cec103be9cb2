"""Run a command: its output to a log file, its time limited, and all that it started ended with it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Ended", "clean_environment", "complaint", "output", "redact", "run", "tail"]

# Windows has no process groups to end; there the command runs by itself.
LIFELINE = (sys.executable, "-I", "-S", str(Path(__file__).with_name("_lifeline.py"))) if os.name == "posix" else ()
INHERITED = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
    "USER",
    "USERPROFILE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
)
# Options that say where an installer looks and how it connects; every other changes what it installs, or whether.
INHERITED_OF_PIP = (
    "PIP_CACHE_DIR",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_DISABLE_PIP_VERSION_CHECK",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_KEYRING_PROVIDER",
    "PIP_NO_CACHE_DIR",
    "PIP_NO_INDEX",
    "PIP_PROXY",
    "PIP_RETRIES",
    "PIP_TIMEOUT",
    "PIP_TRUSTED_HOST",
    "PIP_USE_FEATURE",
)
PATIENCE = 10.0  # seconds that lifeline may take to end what a command started
# A user alone is a token over HTTP, and no secret over ssh.
USERINFO = re.compile(r"//(?:(?<!ssh://)[^/\s]*|[^/\s:]*:[^/\s]*)@", re.IGNORECASE)


class Ended(NamedTuple):
    """How a command ended: its status, how long it took, and where its output is."""

    status: int
    seconds: float
    timed_out: bool
    log: Path
    start: int  # the byte of the log its output begins at


def clean_environment(environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return the variables a command may see: the few that name this machine and its package index, then `extra`.

    A stray CFLAGS or TORCH_CUDA_ARCH_LIST of the caller's shell would change what is built without a word.
    """
    kept = {name: environ[name] for name in (*INHERITED, *INHERITED_OF_PIP) if name in environ}
    return {**kept, "PYTHONNOUSERSITE": "1", **extra}


def redact(text: str) -> str:
    """Return `text` without the users and passwords of the addresses in it."""
    return USERINFO.sub("//***@", text)


def run(
    command: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Ended:
    """Run `command` with its output appended to `log`; raise MachineError where it cannot be started.

    `timeout` is in seconds. On a timeout, an interrupt, or when this process is killed, all that the command started
    ends, compilers included, whatever process group they are in.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("ab") as sink:
        sink.write(f"$ {redact(' '.join(map(str, command)))}\n".encode())
        sink.flush()
        start = sink.tell()
        with _group(command, sink.fileno(), cwd, env) as process:
            try:
                status, timed_out = process.wait(timeout), False
            except subprocess.TimeoutExpired:
                status, timed_out = -signal.SIGKILL, True
    return Ended(status, time.monotonic() - started, timed_out, log, start)


@contextmanager
def _group(
    command: Sequence[str | Path], sink: int, cwd: Path | None, env: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the command running in a process group of its own, and end all that it started on the way out."""
    if shutil.which(command[0], path=(env or os.environ).get("PATH")) is None:
        msg = f"{command[0]} cannot be started: there is no such command"
        raise MachineError(msg)
    process = subprocess.Popen(
        [*LIFELINE, *map(str, command)],
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
    """End what the process started, also what it left behind; a group that is gone already is fine."""
    if process.stdin:
        process.stdin.close()  # lifeline hears that, and kills what other groups have
    if os.name == "posix":
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a group that is ending
            os.killpg(process.pid, signal.SIGKILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def output(
    command: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 60
) -> str | None:
    """Return what `command` prints, stripped, or None where it fails, is missing, or takes over `timeout` seconds."""
    try:
        done = subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            cwd=cwd,
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
    """Return what a failed command gave as its reason: its ERROR lines, or its last line, cut to `most` characters."""
    lines = tail(ended.log, 40, ended.start).splitlines()
    errors = [line for line in lines if line.startswith(("ERROR", "error"))]
    return "; ".join(errors or lines[-1:])[:most]
