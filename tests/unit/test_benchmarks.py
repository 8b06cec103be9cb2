from __future__ import annotations

import math

import pytest

from tests.benchmarks.__main__ import report


@pytest.mark.parametrize(("figure", "status"), [(0.5, 0), (1.0, 0), (1.01, 1)])
def test_a_figure_is_held_against_its_limit(figure: float, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report([("one wheel more", figure, "x", 1.0)]) == status
    assert capsys.readouterr().out.startswith("one wheel more ")


@pytest.mark.parametrize("figure", [0.0, -1.28, -math.inf, math.nan])
def test_a_figure_that_cannot_be_is_a_fault_of_its_benchmark(figure: float, capsys: pytest.CaptureFixture[str]) -> None:
    assert report([("one wheel more", figure, "x", 1.0), ("the next", 2.0, "x", 1.0)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, "is no figure, expected one above 0: its benchmark is at fault" in printed.err) == ("", True)
