"""Runs act for as long as it gets on, and tells what was going on once it no longer does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

QUIET = 600.0  # seconds without a word: no step of ours works for as long in silence
LOOKS = 10  # in that time
RECORDS, CHARACTERS = 3, 300  # how much of act's last words is told
PROCESSES = Path("/proc")  # Linux has it
ROUTINE = re.compile(r"goroutine \d+ .*\[(?P<why>.+)\]:")  # a block of Go's traceback, of which the calls follow
CALL = re.compile(r"^github\.com/nektos/act/(\S+)\(", re.MULTILINE)


class StuckError(Exception):
    """act said nothing for too long; the message has its last words, what runs, and where act itself waits."""


def run_watched(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], quiet: float = QUIET
) -> subprocess.CompletedProcess[str]:
    """Run act to its end; raise StuckError once it has printed nothing for `quiet` seconds."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        with subprocess.Popen(command, cwd=cwd, env=env, **streams) as process:
            try:
                _wait(process, (out, err), quiet)
            except subprocess.TimeoutExpired:
                own = _find_own(process.pid, cwd.parent)
                running = [line for one in own for line in _describe(one)]
                process.send_signal(signal.SIGQUIT)  # Go prints where each of its routines is, and ends
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
                for one in own:
                    with suppress(ProcessLookupError):
                        os.kill(int(one.name), signal.SIGKILL)
                raise StuckError(_report(quiet, _read(out), running, _read(err))) from None
            finally:
                process.kill()
        return subprocess.CompletedProcess(command, process.returncode, _read(out), _read(err))


def _wait(process: subprocess.Popen[bytes], files: tuple[IO[str], ...], quiet: float) -> None:
    """Wait for the end; raise TimeoutExpired if the files have not grown for `quiet` seconds."""
    size, grown = _size(files), time.monotonic()
    while time.monotonic() - grown < quiet:
        with suppress(subprocess.TimeoutExpired):
            process.wait(quiet / LOOKS)
            return
        if _size(files) != size:
            size, grown = _size(files), time.monotonic()
    raise subprocess.TimeoutExpired(process.args, quiet)


def _size(files: tuple[IO[str], ...]) -> int:
    return sum(os.fstat(file.fileno()).st_size for file in files)


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


def _report(quiet: float, records: str, running: Sequence[str], errors: str) -> str:
    last = [record[-CHARACTERS:] for record in records.splitlines()[-RECORDS:]]
    parts = {"its last words": last, "what runs": running, "where it waits": list(_waiting(errors))}
    said = "\n".join(f"{name}:\n  " + "\n  ".join(lines or ["nothing"]) for name, lines in parts.items())
    return f"act printed nothing for {quiet:g} s\n{said}"


def _waiting(errors: str) -> Iterator[str]:
    """Yield, for each routine of Go that is in a function of act, its innermost one and what it waits for."""
    for block in errors.split("\n\n"):
        head, calls = ROUTINE.match(block), CALL.findall(block)
        if head and calls:
            yield f"{calls[0]}: {head['why']}"


def _find_own(act: int, home: Path) -> list[Path]:
    """Return the folder of each process that act started, or that works in the folder of the run: prepared ones do."""
    found = {int(path.name): path for path in PROCESSES.glob("[0-9]*")}
    ours = {act: found[act]} if act in found else {}
    for number in sorted(found):
        with suppress(OSError):
            if _parent(found[number]) in ours or (found[number] / "cwd").readlink().is_relative_to(home):
                ours[number] = found[number]
    return list(ours.values())


def _parent(process: Path) -> int:
    return int((process / "stat").read_text().rpartition(")")[2].split()[1])


def _describe(process: Path) -> Iterator[str]:
    """Yield what a process is, its state, and what of the kernel it waits in."""
    with suppress(OSError):
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        yield f"{process.name} {state} {(process / 'wchan').read_text()} {words[:CHARACTERS]}"
