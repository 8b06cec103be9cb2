"""What is recorded of a project that was built whole and in shards, and what follows for more of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.proof.shards import RECORD, SHARDS, fill, simulate, simulate_matrix

FOUND: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
ALIKE = {str(number): 10.0 for number in range(64)}


@pytest.mark.parametrize("found", [FOUND, FOUND["project"]], ids=["generated", "real"])
def test_shards_make_the_bytes_of_the_whole_build_with_the_efficiency_that_was_measured(found: dict[str, Any]) -> None:
    for way in found["shards"].values():
        assert (way["link"]["made"], len(way["each"])) == (found["whole"]["made"], SHARDS)
        for name, kind in (("efficiency", "seconds"), ("efficiency by processor time", "cpu_seconds")):
            longest = max(one[kind] for one in way["each"]) + way["link"][kind]
            assert way[name] == round(found["whole"][kind] / SHARDS / longest, 2)


@pytest.mark.parametrize("found", [FOUND, FOUND["project"]], ids=["generated", "real"])
def test_by_cost_is_never_worse_than_by_hash(found: dict[str, Any]) -> None:
    assert all(row["longest first"] >= row["hash"] for row in found["simulated"])
    assert [row["longest first"] for row in simulate(ALIKE)] == [1.0] * 7


def test_a_matrix_is_done_in_waves_of_what_runs_at_once() -> None:
    assert fill([10.0] * 41, 20) == 30.0
    rows = {row["shards"]: row for row in simulate_matrix(ALIKE, 30)}
    assert [rows[size]["waves"] for size in (1, 4, 64)] == [2, 6, 96]
    assert rows[64]["minutes"] > rows[1]["minutes"]  # a full account gains nothing
    alone = {row["shards"]: row["minutes"] for row in FOUND["simulated matrix"]["1"]["rows"]}
    assert alone[16] < alone[1] / 10
