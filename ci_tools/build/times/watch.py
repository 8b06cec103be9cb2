"""Watches the units of one job's build, and tells at its end how it went, however it ended."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.build.times.chart import write_chart
from ci_tools.build.times.trace import SUFFIX, MemorySample, TracedJob, describe_job, dump, page_of_job
from ci_tools.build.units.report import COMPILED, SAME_TEXT, UNCHANGED
from ci_tools.errors import FatwheelError, TimedOut, TimeLimit
from ci_tools.github import step as steps
from ci_tools.machine.context import Outside
from ci_tools.machine.runner import machine, measure_memory
from ci_tools.machine.waits import Waits

if TYPE_CHECKING:
    from ci_tools.build.units.launchers import Launchers

KEPT = {COMPILED, SAME_TEXT, UNCHANGED}  # units that the store has
LONGER = "nothing new is kept for another attempt: `timeout-minutes` in the config, or `--time-limit`, allows more"
EVERY = 1.0  # seconds between two samples of the memory
SOON = 30.0  # seconds until the first word of how far the compilers are


@contextmanager
def watch_units(launchers: Launchers, job: str, log: Path, outside: Outside) -> Iterator[Callable[[float], None]]:
    """Write the units and the trace of a job beside its log, and report them, when the body has ended.

    The body tells, by a function, how long the project's own build took. Raises TimeLimit if units are left for another
    attempt, also where the project's build goes on without what cannot be compiled.
    """
    began, own, failed = time.time(), [0.0], None
    report = launchers.report
    waits = Waits(outside.reporter.say, SOON)
    try:
        with (
            _sample_memory() as samples,
            waits.over(lambda: f"the compilers of {job} (units done: {len(report.units)})"),
        ):
            yield own.append
    except FatwheelError as error:
        failed = error
    finally:
        here, units = machine(), tuple(report.units)
        traced = TracedJob(job, began, time.time(), here.cores, here.memory, own[-1], (*samples,), units)
        _tell(traced, launchers, log, outside)
    kept = sum(unit.how in KEPT for unit in units) if launchers.gate.store else 0
    compiled = any(unit.how == COMPILED for unit in units) and bool(kept)
    standing = f"{kept} compile units are in the store, from which the same command goes on"
    is_over = isinstance(failed, TimedOut) and (compiled or time.monotonic() >= outside.ends)
    if launchers.gate.is_closed or is_over:
        raise _explain_limit(job, log, standing if kept else "", is_progress=compiled) from failed
    if failed:
        failed.standing = failed.standing or (standing if compiled else "")
        raise failed  # after the report


def _explain_limit(job: str, log: Path, standing: str, *, is_progress: bool) -> TimeLimit:
    """Return the error of a build that the time limit stopped; how far ninja was is in the log."""
    steps_of_ninja = re.findall(r"^\[(\d+)/(\d+)\]", log.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    at = f"; ninja was at step {steps_of_ninja[-1][0]} of {steps_of_ninja[-1][1]}" if steps_of_ninja else ""
    error = TimeLimit(f"the build of {job} stopped before its time limit{at}", hint="" if is_progress else LONGER)
    error.standing = standing
    return error


@contextmanager
def _sample_memory() -> Iterator[list[MemorySample]]:
    """Yield a list to which the memory in use is added every second while the body runs."""
    samples: list[MemorySample] = []
    ended = threading.Event()

    def sample() -> None:
        while True:
            found = measure_memory()
            samples.append(MemorySample(time.time(), found.total - found.available, found.swapped))
            if ended.wait(EVERY):  # it returns at once when the body has ended
                return

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def _tell(traced: TracedJob, launchers: Launchers, log: Path, outside: Outside) -> None:
    """Report the units, in a workflow also on the page of its job; write them, and the trace."""
    log.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps([unit._asdict() for unit in traced.units], indent=1)
    log.with_suffix(".units.json").write_text(content, encoding="utf-8")
    log.with_suffix(SUFFIX).write_bytes(dump([traced]))
    log.with_suffix(".html").write_bytes(write_chart([traced]))
    lines = [*launchers.report.describe(), *describe_job(traced)]
    for line in lines:
        outside.reporter.say(f"{traced.name}: {line}")
    if page := steps.page_of(outside.environ):
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(page_of_job(traced, lines))
