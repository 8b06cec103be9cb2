"""A long transfer says how much there is and how long it takes, on a terminal and in a log."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rich.console import Console

from ci_tools.cli import reporter
from ci_tools.cli.reporter import PURPOSES, TerminalReporter, TimedReporter, _Step, duration
from ci_tools.machine.context import Silent
from tests.language.modules import list_modules, read_module

MEGABYTE = 10**6


def report(title: str, take: Callable[[_Step, int], None], *, is_terminal: bool) -> str:
    """Return what a console shows of a step whose ten parts are taken one after the other."""
    heard = io.StringIO()
    console = Console(file=heard, force_terminal=is_terminal, width=120, color_system=None)
    with TerminalReporter(lambda: console).step(title) as step:
        for part in range(1, 11):
            take(step, part)
            if step.live:
                step.live.refresh()
    return heard.getvalue()


def transfer(*, is_terminal: bool) -> str:
    """Return what is said of a transfer of ten megabytes."""
    return report(
        "fetch a toolkit", lambda step, part: step.progress(part * MEGABYTE, 10 * MEGABYTE), is_terminal=is_terminal
    )


def test_a_terminal_shows_bytes_and_time_left() -> None:
    said = transfer(is_terminal=True)
    assert "10.0/10.0 MB" in said
    assert re.search(r"\d:\d\d:\d\d.*\d:\d\d:\d\d", said)  # the time so far, and the time left


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "EVERY", 0.0)
    lines = transfer(is_terminal=False).splitlines()
    assert re.fullmatch(r"fetch a toolkit: 1\.0 MB of 10\.0 MB, \d+ s left", lines[0])
    assert re.fullmatch(r"fetch a toolkit \(\d+\.\d s\)", lines[-1])


def test_a_log_says_that_a_long_step_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "LONG", 0.0)
    heard = io.StringIO()
    with TerminalReporter(lambda: Console(file=heard, width=120)).step("build demo.whl"):
        for _ in range(1000):
            if not heard.getvalue().endswith("\n"):
                time.sleep(0.01)
    assert re.fullmatch(r"build demo.whl is under way\nbuild demo.whl \(\d+\.\d s\)\n", heard.getvalue())


def test_a_log_has_one_line_for_a_short_transfer() -> None:
    assert len(transfer(is_terminal=False).splitlines()) == 1


def observation(*, is_terminal: bool) -> str:
    """Return what a console shows of a step that has counted ten cells."""
    return report("observe", lambda step, part: step.count(part - 1, 10, "cells"), is_terminal=is_terminal)


def test_what_holds_for_several_jobs_is_said_once() -> None:
    heard = io.StringIO()
    told = TerminalReporter(lambda: Console(file=heard, width=120))
    for line in ("torch is fetched", "job a", "torch is fetched"):
        told.say(line)
    assert heard.getvalue() == "torch is fetched\njob a\n"


def test_a_terminal_shows_how_many_cells_are_known() -> None:
    assert re.search(r"9/10 cells +\d:\d\d:\d\d", observation(is_terminal=True))


def test_a_log_says_how_many_cells_are_known_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "EVERY", 0.0)
    lines = observation(is_terminal=False).splitlines()
    assert re.fullmatch(r"observe: 9 of 10 cells, \d+ s left", lines[-2])


def test_a_run_says_what_it_took_beside_the_projects_own_build(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 2.0, 5.0, 260.0, 261.0, 262.5, 263.0])  # began, the ends and begins of steps, and the end
    monkeypatch.setattr(reporter.time, "monotonic", lambda: next(clock))
    times = TimedReporter(Silent())
    with times.step("build demo-1.0.whl"), times.step("fetch the CUDA 13.0 compiler"):
        pass
    with times.step("audit demo-1.0.whl"):
        pass
    assert times.summarize(252.0) == (
        "time: the project's own build 4 min 12 s, Fatwheel 11.0 s "
        "(environments and repair 4.0 s, fetching 3.0 s, audit 1.5 s, the rest 2.5 s)"
    )


def test_a_build_from_the_sdist_is_a_trial_and_other_threads_do_not_count() -> None:
    times = TimedReporter(Silent())
    with times.step("build a.whl from a.tar.gz"):
        pass
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_take_a_step, times).result()
    assert set(times.spent) == {"trials"}


def test_what_planning_took_beside_its_steps_is_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 3.0, 7.0, 8.0])  # began, the begin and end of the step, the end of planning, and of the run
    monkeypatch.setattr(reporter.time, "monotonic", lambda: next(clock))
    times = TimedReporter(Silent())
    with times.step("observe what setup.py builds"):
        pass
    times.book("planning")
    assert times.summarize(0.0) == ("time: Fatwheel 8.0 s (planning 5.0 s, observing the build 2.0 s, the rest 1.0 s)")


def test_every_step_of_a_build_has_a_purpose() -> None:
    titles = re.compile(r'\.step\(f?"(\w+) ')
    rooms = ("build", "source", "observe", "verify", "publish.transaction", "publish.targets", "publish.release")
    named = {word for name in list_modules() if name.startswith(rooms) for word in titles.findall(read_module(name))}
    assert named - PURPOSES.keys() == {"copy"}  # a checkout at another revision, which no build needs


def _take_a_step(times: TimedReporter) -> None:
    with times.step("fetch torch"):
        pass


def test_a_run_that_builds_nothing_speaks_only_of_fatwheel() -> None:
    assert re.fullmatch(r"time: Fatwheel 0\.0 s", TimedReporter(Silent()).summarize(0.0))


@pytest.mark.parametrize(
    ("seconds", "shown"), [(3.14, "3.1 s"), (59.6, "1 min 00 s"), (252, "4 min 12 s"), (7500, "2 h 05 min")]
)
def test_times_are_for_people(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_only_a_workflow_has_it_on_its_page(tmp_path: Path) -> None:
    page = tmp_path / "page"
    named = {"GITHUB_STEP_SUMMARY": str(page)}
    for environ in (named, {**named, "GITHUB_ACTIONS": "true"}):
        TimedReporter(Silent()).say_times([], environ, "pure")
    assert page.read_text() == "pure: time: Fatwheel 0.0 s\n\n"
