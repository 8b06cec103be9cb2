"""Units are assigned to shards by what they take, the same on every machine."""

from __future__ import annotations

import hashlib
import random

import pytest

from ci_tools.build.shards.assignment import ShardNumber, assign, estimate_costs
from ci_tools.build.shards.listing import ListedUnit
from ci_tools.catalog import SourceSeconds
from ci_tools.errors import InputError

RATE = SourceSeconds(host=10, device=30)


def make_unit(name: str, text: int = 100, *, is_device: bool = False) -> ListedUnit:
    return ListedUnit(name, name, f"{name}.cu", text, is_device)


@pytest.mark.parametrize(
    ("costs", "shards", "parts"),
    [
        pytest.param({"a": 5, "b": 4, "c": 3, "d": 3}, 2, (("a", "d"), ("b", "c")), id="the-longest-first"),
        pytest.param({"a": 9, "b": 1, "c": 1}, 2, (("a",), ("b", "c")), id="a-long-one-alone"),
        pytest.param({"a": 1, "b": 1}, 3, (("a",), ("b",), ()), id="more-shards-than-units"),
        pytest.param({}, 2, ((), ()), id="nothing"),
    ],
)
def test_assignment(costs: dict[str, float], shards: int, parts: tuple[tuple[str, ...], ...]) -> None:
    assert assign(costs, shards) == parts


@pytest.mark.parametrize("seed", range(20))
def test_every_unit_is_in_one_shard_whatever_their_order(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a draw for a test
    costs = {str(number): dice.expovariate(1) for number in range(dice.randrange(1, 200))}
    parts, shards = assign(costs, 7), dict(dice.sample([*costs.items()], len(costs)))
    assert sorted(name for part in parts for name in part) == sorted(costs)
    assert assign(shards, 7) == parts
    longest = max(sum(costs[name] for name in part) for part in parts)
    assert longest <= 4 / 3 * max(sum(costs.values()) / 7, *costs.values()) + max(costs.values()) / 3


def test_by_cost_is_shorter_than_by_hash() -> None:
    dice = random.Random(47)  # noqa: S311 - a draw for a test
    costs = {str(number): dice.lognormvariate(3, 1) for number in range(64)}
    hashed = [0.0] * 4
    for name, seconds in costs.items():
        hashed[hashlib.sha256(name.encode()).digest()[0] % 4] += seconds
    longest = max(sum(costs[name] for name in part) for part in assign(costs, 4))
    assert (longest / (sum(costs.values()) / 4) < 1.02, max(hashed) / longest > 1.1) == (True, True)


def test_what_was_measured_counts_and_scales_what_was_not() -> None:
    units = [make_unit("a"), make_unit("b"), make_unit("c", 300), make_unit("k", is_device=True)]
    assert estimate_costs(units, {}, RATE, 2) == {"a": 6, "b": 6, "c": 18, "k": 70}
    assert estimate_costs(units, {"a": 3.0}, RATE, 2) == {"a": 3, "b": 3, "c": 9, "k": 35}


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "1/0", "1/257", "a/b", "1/4 ", "-1/4", "1//4"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a shard, expected K/N, such as 2/4"):
        ShardNumber.parse(text)
