"""How much the command line computes before it does anything: as ratios, since only those hold on every machine."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPETITIONS = 15
BASE = ("-c", "import argparse, json, yaml, packaging.specifiers")
SCRIPT = "import sys; from ci_tools.cli.main import main; sys.exit(main())"  # what the command `fatwheel` does
LIMITS = {("--version",): 1.3, ("--help",): 1.3, ("plan", "package/fatwheel.yml"): 3.0}


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit): the CPU time of each command beside that of an import."""
    with tempfile.TemporaryDirectory() as folder:
        commands = [BASE, *(("-c", SCRIPT, *words) for words in LIMITS)]
        rounds = [[_spend(command, folder) for command in commands] for _ in range(REPETITIONS)]
        base, *others = (min(times) for times in zip(*rounds[1:], strict=True))  # the first round fills the cache
    for (words, limit), seconds in zip(LIMITS.items(), others, strict=True):
        yield f"fatwheel {' '.join(words)}, CPU time beside an import", seconds / base, "x", limit


def _spend(arguments: Sequence[str], cache: str) -> float:
    """Return the seconds of CPU time that a Python with these arguments takes, and what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environ = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": cache}
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
