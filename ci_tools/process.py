"""Run a command: its output to a log file, its time limited, its whole process group ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["Ended", "clean_environment", "output", "run", "tail"]

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
# Options that change what an installer installs, not where from.
PIP_STAYS_OUT = ("PIP_CONSTRAINT", "PIP_NO_DEPS", "PIP_PRE", "PIP_REQUIREMENT", "PIP_TARGET", "PIP_PREFIX", "PIP_USER")


class Ended(NamedTuple):
    """How a command ended: its status, how long it took, and where its output is."""

    status: int
    seconds: float
    timed_out: bool
    log: Path


def clean_environment(environ: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Return the variables a command may see: the few that name this machine and its package index, then `extra`.

    A stray CFLAGS or TORCH_CUDA_ARCH_LIST of the caller's shell would change what is built without a word.
    """
    kept = {name: environ[name] for name in INHERITED if name in environ}
    kept |= {name: value for name, value in environ.items() if name.startswith("PIP_") and name not in PIP_STAYS_OUT}
    return {**kept, "PYTHONNOUSERSITE": "1", **extra}


def run(
    command: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> Ended:
    """Run `command` with its output appended to `log`; raise MachineError where it cannot be started.

    `timeout` is in seconds. On a timeout or an interrupt the whole process group ends, compilers included.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with log.open("ab") as sink:
        sink.write(f"$ {' '.join(map(str, command))}\n".encode())
        sink.flush()
        with _group(command, sink.fileno(), cwd, env) as process:
            try:
                status, timed_out = process.wait(timeout), False
            except subprocess.TimeoutExpired:
                status, timed_out = -signal.SIGKILL, True
    return Ended(status, time.monotonic() - started, timed_out, log)


@contextmanager
def _group(
    command: Sequence[str | Path], sink: int, cwd: Path | None, env: Mapping[str, str] | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield the command running in a process group of its own, and end the group on the way out."""
    try:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        msg = f"{command[0]} cannot be started: {error.strerror}"
        raise MachineError(msg) from None
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of the process's group; a group that has ended already is fine."""
    if process.poll() is None:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
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


def tail(log: Path, lines: int = 25) -> str:
    """Return the last `lines` lines of a log."""
    with log.open(encoding="utf-8", errors="replace") as file:
        return "".join(deque(file, maxlen=lines)).rstrip()
