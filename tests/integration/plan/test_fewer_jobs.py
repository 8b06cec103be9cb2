"""The count in docs/explanation/fewer-jobs.md: our half of it is what the plan says today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.jobs import KEPT, REQUESTS, Asked, count

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs/explanation/fewer-jobs.md"
ROWS = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.count(" | ") == 4]


@pytest.mark.parametrize(("asked", "row"), list(zip(REQUESTS, ROWS[1:], strict=True)), ids=lambda one: str(one[0])[:40])
def test_our_builds_and_trials_are_those_of_the_page(asked: Asked, row: list[str]) -> None:
    builds, tries = count(asked)
    assert (str(builds), str(tries)) == (row[3], row[4])


def test_with_abi3_theirs_shrink_by_the_pythons_that_are_kept() -> None:
    for asked, (_, builds, with_abi3, *_) in zip(REQUESTS, ROWS[1:], strict=True):
        kept = [python for python in asked.pythons if python in KEPT]
        assert int(with_abi3) * len(asked.pythons) == int(builds) * len(kept)
