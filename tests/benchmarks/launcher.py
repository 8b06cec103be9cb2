"""What a launcher adds to a compiler call that nothing is taken for: its start, and the question to the build."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.builders.units import open_units


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit): the median of a launched call beside that of a plain one, in turn."""
    plain, launched = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder, open_units(Path(folder), None) as units:
        (units.folder / "a.c").write_text("int f(void) { return 1; }\n")
        for _ in range(31):
            for environ, times in ((None, plain), (units.environ, launched)):
                before = time.perf_counter()
                subprocess.run(["gcc", "-c", "a.c", "-o", "a.o"], cwd=units.folder, env=environ, check=True)
                times.append(time.perf_counter() - before)
    more = 1000 * (statistics.median(launched) - statistics.median(plain))
    yield "a launcher without a store, beside gcc", more, "ms", 30
