"""What is recorded of a project that was built whole and in shards, and what follows for more of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.proof.shards import RECORD, SHARDS, fill, simulate, simulate_matrix

FOUND: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
ALIKE = {str(number): 10.0 for number in range(64)}


@pytest.mark.parametrize("way", ["longest first", "hash"])
def test_shards_make_the_bytes_of_the_whole_build(way: str) -> None:
    shards = FOUND["shards"][way]
    assert shards["link"]["made"] == FOUND["whole"]["made"]
    assert len(shards["each"]) == SHARDS


def test_the_efficiency_is_what_was_measured() -> None:
    for way in FOUND["shards"].values():
        longest = max(one["cpu_seconds"] for one in way["each"]) + way["link"]["cpu_seconds"]
        assert way["efficiency by processor time"] == round(FOUND["whole"]["cpu_seconds"] / SHARDS / longest, 2)


def test_by_cost_is_never_worse_than_by_hash() -> None:
    assert all(row["longest first"] >= row["hash"] for row in FOUND["simulated"])
    assert [row["longest first"] for row in simulate(ALIKE)] == [1.0] * 7


def test_a_matrix_is_done_in_waves_of_what_runs_at_once() -> None:
    assert fill([10.0] * 41, 20) == 30.0
    rows = {row["shards"]: row for row in simulate_matrix(ALIKE, 30)}
    assert [rows[size]["waves"] for size in (1, 4, 64)] == [2, 6, 96]
    assert rows[64]["minutes"] > rows[1]["minutes"]  # a full account gains nothing
    alone = {row["shards"]: row["minutes"] for row in FOUND["simulated matrix"]["1"]["rows"]}
    assert alone[16] < alone[1] / 10
