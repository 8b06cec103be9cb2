"""Rows of a matrix that share runners, at the limit of what runners may take."""

from __future__ import annotations

import pytest

from ci_tools.errors import InputError
from ci_tools.model.plan import Plan
from ci_tools.plan import matrix
from tests.unit.plan.test_matrix import many, plan

__all__ = ["plan"]  # fixtures

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("minutes", "name"), [pytest.param(300, "builds", id="builds"), pytest.param(1, "sites", id="sites")]
)
def test_rows_that_do_not_fit_into_the_time_of_their_runners_are_refused(plan: Plan, minutes: int, name: str) -> None:
    found = many(plan, 257 if name == "builds" else 9000, minutes)
    expected = f"the plan has {len(found.jobs)} {name}, and GitHub runs 256 jobs of one matrix"
    with pytest.raises(InputError, match=expected) as caught:
        matrix.outputs(found)
    assert "with a shorter `timeout-minutes` one runner does more of them in turn" in caught.value.hint
