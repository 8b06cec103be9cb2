"""The tables of where the time and the memory of builds went: of one, or of two beside each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ci_tools.build.times.trace import BuildTotals, TracedJob, add_up, describe_size
from ci_tools.build.units.report import DoneUnit
from ci_tools.cli.tables.layout import Table, add_row, new_table
from ci_tools.machine.waits import duration

Show = Callable[[Any], str]
Builds = dict[str, tuple["TracedJob", ...]]  # by what the command line calls them
FEW = 12  # units that get a row each
WORTH = 1.0  # seconds of processor time that a unit takes more or less, to be shown
SECONDS = {
    "own": "the project's own build",
    "compiling": "compilers, processor time",
    "keys": "keys, processor time",
    "waited": "waited for memory",
    "longest": "longest unit",
}
COUNTS = {"units": "units", "taken": "from the store", "compiled": "compiled", "left": "left for the time limit"}
SIZES = {"peak": "largest unit", "used": "memory of the machine in use", "swapped": "went to swap"}


def times_tables(builds: Builds) -> Iterator[Table]:
    """Yield a table of the sums, with a column for each build, and one of units: the longest, or what changed most."""
    totals = [add_up(jobs) for jobs in builds.values()]
    table = new_table("where the time went", "", *builds, *(["change"] if len(totals) > 1 else []))
    for key, name in {"wall": "time", **SECONDS}.items():
        _add_figures(table, name, key, totals, duration)
    for key, name in COUNTS.items():
        _add_figures(table, name, key, totals, str)
    _add_figures(table, "compilers at a time", "at_once", totals, str)
    for key, name in SIZES.items():
        _add_figures(table, name, key, totals, describe_size)
    yield table
    units = _changes_table(*builds.values()) if len(totals) > 1 else _longest_table(*builds.values())
    if units.rows:
        yield units


def _add_figures(table: Table, name: str, key: str, totals: Sequence[BuildTotals], show: Show) -> None:
    figures = [getattr(one, key) for one in totals]
    if any(figures):  # a figure of a machine that does not measure it
        share = [_compare(*figures)] if len(figures) > 1 else []
        add_row(table, name, *map(show, figures), *share)


def _compare(before: float, after: float) -> str:
    if not before:
        return "new"
    percent = round(100 * (after / before - 1))
    return f"{percent:+} %" if percent else "the same"


def _longest_table(jobs: Sequence[TracedJob]) -> Table:
    units = sorted((unit for job in jobs for unit in job.units if unit.wall), key=lambda one: -one.wall)
    table = new_table("longest units", "unit", "time", "processor", "memory", "waited")
    for unit in units[:FEW]:  # a build may have thousands
        times = duration(unit.wall), duration(unit.compiling)
        add_row(table, unit.source, *times, describe_size(unit.peak), duration(unit.waited))
    return table


def _changes_table(before: Sequence[TracedJob], after: Sequence[TracedJob]) -> Table:
    """Return the units whose processor time changed most; where several jobs have a unit, its times are added."""
    old, new = _group(before), _group(after)
    # Several jobs may compile the same unit.
    times = {unit: tuple(sum(one.compiling for one in side.get(unit, ())) for side in (old, new)) for unit in old | new}
    table = new_table("units that changed most, by processor time", "unit", "before", "after")
    for unit, (first, second) in sorted(times.items(), key=lambda item: -abs(item[1][1] - item[1][0]))[:FEW]:
        if abs(second - first) >= WORTH:
            source = (new.get(unit) or old[unit])[0].source
            add_row(table, source, *(_describe_unit(side.get(unit, [])) for side in (old, new)))
    return table


def _group(jobs: Sequence[TracedJob]) -> dict[str, list[DoneUnit]]:
    """Return the units of jobs by their name."""
    found: dict[str, list[DoneUnit]] = {}
    for unit in (unit for job in jobs for unit in job.units):
        found.setdefault(unit.unit, []).append(unit)
    return found


def _describe_unit(units: Sequence[DoneUnit]) -> str:
    if not units:
        return "none"
    ran = [unit for unit in units if unit.wall]  # one from the store took no time
    largest = describe_size(max(unit.peak for unit in units))
    return f"{duration(sum(unit.compiling for unit in ran))}, {largest}" if ran else "from the store"


def times_values(builds: Builds) -> list[dict[str, Any]]:
    """Return the sums of builds as JSON values: seconds, bytes and units."""
    return [{"build": name, **add_up(jobs)._asdict()} for name, jobs in builds.items()]
