"""Assigns the compile units of a build to shards: the longest first, each to the shard that has the least so far.

That is at most a third longer than the best assignment, and with many units next to nothing longer (R. L. Graham,
"Bounds on multiprocessing timing anomalies", 1969).
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError

if TYPE_CHECKING:
    from ci_tools.build.shards.listing import ListedUnit
    from ci_tools.catalog import SourceSeconds

MOST = 256  # shards: GitHub's limit of jobs in one matrix


class ShardNumber(NamedTuple):
    """Which of how many shards, from 1."""

    number: int
    total: int

    @property
    def folder(self) -> str:
        """The name of its folder."""
        return f"{self.number}-of-{self.total}"

    @classmethod
    def parse(cls, text: str) -> ShardNumber:
        """Return the shard of a text such as 2/4; raise InputError for another text."""
        found = re.fullmatch(r"(\d{1,3})/(\d{1,3})", text)
        shard = cls(int(found[1]), int(found[2])) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.total <= MOST:
            msg = f"--shard: {text!r} is not a shard, expected K/N, such as 2/4, with K from 1 to N and N up to {MOST}"
            raise InputError(msg)
        return shard


def assign(costs: Mapping[str, float], shards: int) -> tuple[tuple[str, ...], ...]:
    """Return the names of each shard, from the costs by name; the same whatever the order of the names."""
    parts: list[list[str]] = [[] for _ in range(shards)]
    totals = [(0.0, number) for number in range(shards)]
    for name in sorted(costs, key=lambda one: (-costs[one], one)):
        total, number = heapq.heappop(totals)
        parts[number].append(name)
        heapq.heappush(totals, (total + costs[name], number))
    return tuple(map(tuple, parts))


def estimate_costs(
    units: Sequence[ListedUnit], measured: Mapping[str, float], rate: SourceSeconds, archs: int
) -> dict[str, float]:
    """Return the seconds of one core for each unit, by its seed.

    A unit that was never measured takes what the catalog says of a source, as much more as its text is longer than
    others are; where some were measured, as much more or less as those took.
    """
    texts = {one.is_device: fmean(other.text for other in units if other.is_device is one.is_device) for one in units}
    guessed = {
        one.seed: rate.estimate(int(not one.is_device), int(one.is_device), archs)
        * one.text
        / max(texts[one.is_device], 1)
        for one in units
    }
    known = {one.seed: measured[one.name] for one in units if one.name in measured}
    expected = sum(guessed[seed] for seed in known)
    factor = sum(known.values()) / expected if expected else 1.0
    return {seed: known.get(seed, seconds * factor) for seed, seconds in guessed.items()}
