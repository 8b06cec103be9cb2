"""Traces of builds: what viewers of Chrome's format take, and what `fatwheel report` reads back."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from ci_tools.build.times.chart import write_chart
from ci_tools.build.times.trace import SUFFIX, add_up, describe_job, dump, find_jobs, list_lanes, page_of_job
from ci_tools.build.units.report import UNCHANGED
from ci_tools.cli.tables.layout import draw
from ci_tools.cli.tables.times import times_tables
from ci_tools.errors import InputError
from tests.builders.sources import write
from tests.builders.times import GIB, job, unit

# The fields that the description of the format asks for, by the phase of an event.
FIELDS = {
    "M": {"name", "pid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "C": {"name", "pid", "ts", "args"},
}
MICROSECONDS = (int, float)
SOME = job("one", unit("a.cu", 0, 30, waited=10, peak=3 * GIB), unit("b.cu", 5, 20), unit("c.cu", 35, 1, UNCHANGED))


def test_a_trace_is_read_as_it_was_written(tmp_path: Path) -> None:
    jobs = job("one", unit("a.cu", 1, 5, waited=1.5)), job("two", unit("b.cu", 2, 5), began=50.0)
    (tmp_path / f"both{SUFFIX}").write_bytes(dump(jobs))
    assert find_jobs(tmp_path) == jobs


def test_each_event_has_the_fields_that_viewers_ask_for() -> None:
    events: list[dict[str, Any]] = json.loads(dump([job("one", unit("a.cu", 1, 5, waited=2), unit("b.cu", 1, 3))]))[
        "traceEvents"
    ]
    assert {event["ph"] for event in events} == {*FIELDS}
    assert all(FIELDS[event["ph"]] <= event.keys() for event in events)
    assert all(isinstance(event[key], MICROSECONDS) for event in events for key in event.keys() & {"ts", "dur"})
    assert all(isinstance(size, int) for event in events if event["ph"] == "C" for size in event["args"].values())


def test_events_of_a_thread_nest() -> None:
    """Viewers drop an event that overlaps another of its thread without being in it."""
    units = [unit(f"{number}.cu", number * 0.7, 3 + number % 5, waited=number % 2) for number in range(30)]
    events = [event for event in json.loads(dump([job("one", *units)]))["traceEvents"] if event["ph"] == "X"]
    for thread in {event["tid"] for event in events}:
        spans = [(event["ts"], event["ts"] + event["dur"]) for event in events if event["tid"] == thread]
        spans.sort(key=lambda span: (span[0], -span[1]))
        for number, (_, end) in enumerate(spans):
            assert all(start >= end - 1 or stop <= end + 1 for start, stop in spans[number + 1 :])


def test_units_in_one_lane_do_not_overlap_and_lanes_are_few() -> None:
    lanes = list_lanes([unit("a", 0, 5), unit("b", 1, 2), unit("c", 3, 2), unit("d", 5, 1)])
    assert [(lane, one.source) for lane, one in lanes] == [(0, "a"), (1, "b"), (1, "c"), (0, "d")]
    for lane in (0, 1):
        own = [one for at, one in lanes if at == lane]
        assert all(first.began + first.took <= second.began for first, second in pairwise(own))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param("{", "it is not a trace that fatwheel wrote, expected logs/JOB.trace.json", id="no-json"),
        pytest.param('{"traceEvents": []}', "it is not a trace that fatwheel wrote", id="of-another-program"),
        pytest.param("[]", "it is not a trace that fatwheel wrote", id="a-list"),
    ],
)
def test_another_file_is_refused(content: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        find_jobs(write(tmp_path, {"x.json": content}) / "x.json")


def test_a_folder_without_a_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no trace below"):
        find_jobs(tmp_path)


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


def test_two_builds_whose_units_took_the_same_have_no_table_of_changes() -> None:
    assert [table.title for table in times_tables({"A": (SOME,), "B": (SOME,)})] == ["where the time went"]


def test_the_chart_draws_each_unit_and_escapes_its_name() -> None:
    page = write_chart([job("one", unit("a&<b>.cu", 0, 9), unit("c.cu", 9, 1, UNCHANGED))]).decode()
    drawn = ET.fromstring(re.search("<svg.*</svg>", page, re.DOTALL)[0])  # type: ignore[index]  # noqa: S314
    titles = [found.text for found in drawn.iter("title")]
    assert titles[0] == "a&<b>.cu: compiled, 9.0 s, 1.0 GiB"
    assert "<script" not in page
    assert len([*drawn.iter("rect")]) == 2


def test_one_unit_is_not_counted_in_the_plural() -> None:
    assert "</strong> 1 unit, " in write_chart([job("one", unit("a.cu", 0, 9))]).decode()
