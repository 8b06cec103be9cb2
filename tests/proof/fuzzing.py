"""Mutants of everything that Fatwheel reads: each is read, or refused in one sentence, soon and in little memory.

`python -m tests.proof.fuzzing meson 12 1` reads the mutant of that number again, `python -m tests.proof.fuzzing
meson,cmake 0 1000` the first thousand of two readers. A mutant follows from the reader's name and its number alone.
"""

from __future__ import annotations

import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import FatwheelError
from tests.proof.mutations import MUTATORS
from tests.proof.reading import READERS

MAX_SECONDS = 10.0  # of CPU, for one mutant
MAX_BYTES = 1 << 30  # of memory, in all


class TooLong(BaseException):  # not an Exception, so that no reader takes it for a damaged file
    """A mutant took more CPU time than it may."""


class Failure(NamedTuple):
    """A mutant that was neither read nor refused."""

    reader: str
    number: int
    what: str


def mutant(reader: str, number: int) -> bytes:
    """Return the mutant of a number: a good file with one to six changes. Each million of numbers is a seed."""
    chance = random.Random(f"{reader} {number}")  # noqa: S311 - the same each time
    one = READERS[reader]
    content = chance.choice(one.seeds())
    for _ in range(chance.randint(1, 6)):
        content = chance.choice(MUTATORS[one.kind])(content, chance)
    return content


def failures(reader: str, first: int, count: int) -> Iterator[Failure]:
    """Yield the mutants of a reader that are neither read nor refused in one sentence, in time and in little memory."""
    signal.signal(signal.SIGVTALRM, _end)
    for number in range(first, first + count):
        content = mutant(reader, number)
        with tempfile.TemporaryDirectory() as folder:
            what = _read(reader, content, Path(folder))
        if what:
            yield Failure(reader, number, what)
        if peak() > MAX_BYTES:
            yield Failure(reader, number, f"after it, {peak():,} bytes of memory were taken")
            return


def _read(reader: str, content: bytes, folder: Path) -> str:
    """Read a mutant; return what went wrong."""
    started = time.process_time()
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_SECONDS)
    try:
        READERS[reader].read(content, folder)
    except FatwheelError as error:
        return "" if re.search(r"\w", str(error)) else "an error that says nothing"
    except TooLong:
        return f"over {time.process_time() - started:.0f} s in {traceback.format_exc(-4)}"
    except BaseException:  # noqa: BLE001 - whatever it is, it is a defect
        return traceback.format_exc(-4)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def _end(*_: object) -> None:
    raise TooLong


def peak() -> int:
    """Return the most memory that this process had, in bytes."""
    # Not `ru_maxrss`: a process inherits that from the one that started it, which may be large.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) << 10


def main(arguments: list[str]) -> int:
    """Read the mutants that the command line names; print what fails."""
    readers, first, count = arguments[0].split(","), int(arguments[1]), int(arguments[2])
    found = [one for reader in readers for one in failures(reader, first, count)]
    for one in found:
        sys.stdout.write(f"{one.reader} {one.number}: {one.what}\n")
    sys.stdout.write(f"{count} mutants of each, {len(found)} failures, {peak() >> 20} MiB\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
