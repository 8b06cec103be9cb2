"""Traces of builds: what viewers of Chrome's format take, and what `fatwheel report` reads back."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from ci_tools.build.times.trace import SUFFIX, dump, find_jobs, list_lanes
from ci_tools.errors import InputError
from tests.builders.sources import write
from tests.builders.times import job, unit

if TYPE_CHECKING:
    from pathlib import Path

# The fields that the description of the format asks for, by the phase of an event.
FIELDS = {
    "M": {"name", "pid", "args"},
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "C": {"name", "pid", "ts", "args"},
}
MICROSECONDS = (int, float)


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
