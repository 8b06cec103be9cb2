"""CPU seconds per kilobyte: whatever is read again and again in a file, twice as much of it takes about twice the time.

`python -m tests.proof.growth` grows good files of every reader and writes `growth.json`; `… growth meson 12` measures
one file again. A hang is found by `fuzzing`; this finds what would hang in a file that is only larger.
"""

from __future__ import annotations

import datetime as dt
import gc
import json
import random
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import FatwheelError
from tests.proof.mutations import TOKENS
from tests.proof.reading import READERS

RECORD = Path(__file__).with_name("growth.json")
FILES = 4  # that each reader is given
SMALL, LARGE = 1 << 16, 1 << 18  # bytes of what is repeated: doubled twice
LEAST = 0.05  # seconds of CPU: less is lost in the noise
MOST = 7.0  # times the time for four times the size; 4 is linear, 16 the square
SKIPPED = frozenset({"observed"})  # it starts processes, whose time is not this one's


class Growth(NamedTuple):
    """What a grown file took."""

    reader: str
    number: int
    small: float  # seconds of CPU more than the file took before it grew
    large: float

    @property
    def ratio(self) -> float:
        """How many times as long four times as much takes; 0 for what takes next to no time."""
        return round(self.large / max(self.small, LEAST / 8), 1) if self.large > LEAST else 0.0

    @property
    def per_kilobyte(self) -> float:
        """Milliseconds of CPU for each kilobyte."""
        return round(self.large / (LARGE >> 10) * 1000, 2)


def grow(reader: str, number: int, size: int) -> bytes:
    """Return a good file with one part in it so often that it has so many bytes more; all follows from the number."""
    chance = random.Random(f"growth {reader} {number}")  # noqa: S311 - the same each time
    seed = chance.choice(READERS[reader].seeds())
    start = chance.randint(0, max(len(seed) - 1, 0))
    line = seed[start:].partition(b"\n")[0] + b"\n"
    part = chance.choice((chance.choice(TOKENS), b"".join(chance.choices(TOKENS, k=3)), line, seed[start : start + 20]))
    at = chance.choice((0, len(seed), seed.rfind(b"\n", 0, start) + 1, start))
    return seed[:at] + (part or b"x") * (size // len(part or b"x")) + seed[at:]


def _measure(reader: str, number: int, size: int) -> float:
    """Return the seconds of CPU that reading takes."""
    content = grow(reader, number, size)
    gc.collect()
    gc.disable()  # its time follows what else is in memory
    try:
        with tempfile.TemporaryDirectory() as folder:
            started = time.process_time()
            with suppress(FatwheelError):
                READERS[reader].read(content, Path(folder))
            return time.process_time() - started
    finally:
        gc.enable()


def measure_growth(reader: str, number: int) -> Growth:
    """Return how the time grows; what seems to grow too fast is measured again, as this machine has other work."""
    base = min(_measure(reader, number, 0) for _ in range(3))  # the first loads modules
    found = Growth(reader, number, *(max(_measure(reader, number, size) - base, 0.0) for size in (SMALL, LARGE)))
    for _ in range(2):
        if found.ratio <= MOST:
            break
        again = Growth(reader, number, *(max(_measure(reader, number, size) - base, 0.0) for size in (SMALL, LARGE)))
        found = min(found, again, key=lambda one: one.ratio)
    return found


def write_record(found: list[Growth]) -> None:
    """Write what the slowest and the fastest growing file of each reader took."""
    readers: dict[str, dict[str, float]] = {}
    for one in sorted(found):
        row = readers.setdefault(one.reader, {"milliseconds_per_kilobyte": 0.0, "ratio": 0.0})
        row["milliseconds_per_kilobyte"] = max(row["milliseconds_per_kilobyte"], one.per_kilobyte)
        row["ratio"] = max(row["ratio"], one.ratio)
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    table = {"date": today, "files": FILES, "bytes": [SMALL, LARGE], "readers": readers}
    RECORD.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Measure one file, or all, and write the record; return 1 if the time of one grows too fast."""
    pairs = [(name, number) for name in READERS if name not in SKIPPED for number in range(FILES)]
    pairs = [(arguments[0], int(arguments[1]))] if arguments else pairs
    found = [measure_growth(*pair) for pair in pairs]
    bad = [one for one in found if one.ratio > MOST]
    for one in found if arguments else bad:
        sys.stdout.write(f"{one}: {one.ratio} times, {one.per_kilobyte} ms for each kilobyte\n")
    if not arguments:
        write_record(found)
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
