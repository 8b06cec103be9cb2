"""What is said of where the time of a build went: in its log, on the page of a workflow's job, and in a report."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from ci_tools.build.times.chart import write_chart
from ci_tools.build.times.summary import add_up, describe_job, page_of_job
from ci_tools.build.units.report import UNCHANGED
from ci_tools.cli.tables.layout import draw
from ci_tools.cli.tables.times import times_tables
from tests.builders.times import GIB, job, unit

SOME = job("one", unit("a.cu", 0, 30, waited=10, peak=3 * GIB), unit("b.cu", 5, 20), unit("c.cu", 35, 1, UNCHANGED))


def test_sums_are_of_all_jobs_and_time_counts_once() -> None:
    told = add_up([SOME, job("two", unit("d.cu", 50, 50), began=50)])
    assert (told.wall, told.own, told.units, told.taken, told.compiled) == (150, 120, 4, 1, 3)
    assert (told.compiling, told.waited, told.at_once) == (90, 10, 2)
    assert (told.longest_source, told.peak, told.peak_source) == ("d.cu", 3 * GIB, "a.cu")


def test_a_job_says_what_its_compilers_took() -> None:
    said = "compilers took 40.0 s of processor time, 2 at a time, the largest 3.0 GiB of memory (a.cu), "
    assert [*describe_job(SOME)] == [f"{said}10.0 s waited for memory"]


@pytest.mark.parametrize(("swapped", "is_said"), [(0, False), (GIB // 64, False), (GIB, True)])
def test_swap_is_said(swapped: int, *, is_said: bool) -> None:
    lines = [*describe_job(job("one", unit("a.cu", 0, 9), swapped=swapped))]
    assert any("warning: 1.0 GiB went to swap" in line for line in lines) is is_said


def test_a_job_that_compiles_nothing_says_nothing() -> None:
    assert [*describe_job(job("one", unit("c.cu", 0, 1, UNCHANGED)))] == []
    assert page_of_job(job("one"), ["x"]) == ""


def test_the_page_has_the_longest_units_and_no_markup_of_theirs() -> None:
    page = page_of_job(job("one", unit("a_*b*<i>.cu", 0, 9)), ["2 units"])
    assert page.startswith("- 2 units\n\n| longest units | time | memory |\n")
    assert "*b*" not in page
    assert "<i>" not in page


def test_two_builds_are_compared_by_unit() -> None:
    after = job("one", unit("a.cu", 0, 5), unit("b.cu", 5, 20), unit("new.cu", 1, 9))
    lines = [
        re.sub(" {2,}", "|", line) for table in times_tables({"A": (SOME,), "B": (after,)}) for line in draw(table)
    ]
    assert " waited for memory|10.0 s|0.0 s|-100 %" in lines
    assert " units|3|3|the same" in lines
    assert lines[-2:] == [" a.cu|20.0 s, 3.0 GiB|5.0 s, 1.0 GiB", " new.cu|none|9.0 s, 1.0 GiB"]


def test_the_chart_draws_each_unit_and_escapes_its_name() -> None:
    page = write_chart([job("one", unit("a&<b>.cu", 0, 9), unit("c.cu", 9, 1, UNCHANGED))]).decode()
    drawn = ET.fromstring(re.search("<svg.*</svg>", page, re.DOTALL)[0])  # type: ignore[index]  # noqa: S314
    titles = [found.text for found in drawn.iter("title")]
    assert titles[0] == "a&<b>.cu: compiled, 9.0 s, 1.0 GiB"
    assert "<script" not in page
    assert len([*drawn.iter("rect")]) == 2


def test_one_unit_is_not_counted_in_the_plural() -> None:
    assert "</strong> 1 unit, " in write_chart([job("one", unit("a.cu", 0, 9))]).decode()
