"""Whatever is read: no traceback, no hang, and little memory; `tests/proof/fuzzing.py` makes the mutants."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof import growth
from tests.proof.fuzzing import READERS, mutant

ROOT = Path(__file__).parents[2]
A_FEW, MANY = 4, 500
SEEDS = (1000, 28_000_000, 41_000_000)  # the number of the first mutant of each
STARTED = {"observed": 300}  # of readers that start processes for each mutant
QUICK = tuple(name for name in READERS if name not in STARTED)


def read_mutants(reader: str, first: int, count: int) -> None:
    """Read mutants in a process of its own, whose memory is measured."""
    command = [sys.executable, "-m", "tests.proof.fuzzing", reader, str(first), str(count)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_mutant_is_the_same_each_time() -> None:
    assert mutant("meson", 1) == mutant("meson", 1) != mutant("meson", 2)


@pytest.mark.slow
def test_a_few_mutants_are_read_or_refused() -> None:
    read_mutants(",".join(QUICK), 0, A_FEW)


@pytest.mark.long
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("first", SEEDS)
def test_many_mutants_are_read_or_refused(first: int, reader: str) -> None:
    read_mutants(reader, first, STARTED.get(reader, MANY) // (1 if first == SEEDS[0] else 5))


def test_the_record_says_that_time_follows_size() -> None:
    record = json.loads(growth.RECORD.read_text())
    assert record["readers"].keys() == READERS.keys() - growth.SKIPPED
    assert max(row["ratio"] for row in record["readers"].values()) <= growth.MOST


@pytest.mark.slow
@pytest.mark.parametrize("reader", ["metadata", "patterns", "addresses"])
def test_twice_as_much_takes_twice_the_time(reader: str) -> None:
    assert growth.measure_growth(reader, 1).ratio <= growth.MOST
