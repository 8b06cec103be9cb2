"""What a person sees: tables on stdout, talk on stderr, colours and bars only on a terminal."""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ci_tools.model import Level, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.progress import TaskID

    from ci_tools.model import Cell, Covered, Finding, Plan, Skipped, Trial
    from ci_tools.pipeline import Released

__all__ = ["Talk", "findings_table", "plan_tables", "print_tables", "released_tables", "trials_table"]

PLAIN_WIDTH = 200  # where stdout is no terminal, lines are for a log


class Talk:
    """A reporter on stderr: one line per step, and a live line above it while the step runs on a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, line: str) -> None:
        """Show one line."""
        self.console.print(escape(line), highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Iterator[_Step]:
        """Show the step's title with a bar while it runs, then one line with what it took."""
        started = time.monotonic()
        step = _Step(self.console, title)
        with step.live:
            yield step
        took = time.monotonic() - started
        outcome = f": {step.outcome}" if step.outcome else ""
        self.say(f"{title}{outcome} ({took:.1f} s)")


class _Step:
    """The live line of one step; nothing where stderr is no terminal."""

    def __init__(self, console: Console, title: str) -> None:
        self.outcome = ""
        self.live = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self.task: TaskID = self.live.add_task(escape(title), total=None)

    def progress(self, done: int, total: int) -> None:
        """Move the bar: bytes done, and bytes in all."""
        if total and self.live.tasks[0].total is None:
            self.live.columns = (*self.live.columns, BarColumn(), DownloadColumn())
        self.live.update(self.task, completed=done, total=total or None)

    def result(self, text: str) -> None:
        """Say what the step's line ends with."""
        self.outcome = text


def print_tables(tables: Iterable[Table], console: Console) -> None:
    """Print tables, each as wide as it needs where the output is no terminal."""
    for table in tables:
        console.print(table, width=None if console.is_terminal else PLAIN_WIDTH)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _row(table: Table, *values: object) -> None:
    table.add_row(*(escape(str(value)) for value in values))


# ---------------------------------------------------------------- the plan


def plan_tables(plan: Plan, *, explain: bool) -> Iterator[Table]:
    """Yield the plan for people: jobs, then cells with their reasons, a row for all that share one or for each."""
    jobs = _table(f"{plan.project.name} {plan.project.version}: {plan.cells} cells, {len(plan.jobs)} jobs",
                  "job", "wheel", "archs", "runner", "owner", "cells")  # fmt: skip
    for job in plan.jobs:
        _row(jobs, job.name, job.wheel, " ".join(job.archs), job.runner, job.owner, len(job.covers))
    yield jobs
    if plan.covered:
        yield _covered(plan.covered, explain=explain)
    if plan.skipped:
        yield _skipped(plan.skipped, explain=explain)
    if plan.warnings:
        warnings = _table("warnings", "warning")
        for warning in plan.warnings:
            _row(warnings, warning)
        yield warnings


def _covered(covered: Sequence[Covered], *, explain: bool) -> Table:
    table = _table("covered", "cells", "job", "why")
    if explain:
        for cell, job, reason in covered:
            _row(table, cell, job, reason)
        return table
    for (job, reason, platform, accelerator), group in groupby(covered, key=_covered_group):
        cells = [item.cell for item in group]
        _row(table, _cells(f"{platform}{f' / {accelerator}' if accelerator else ''}", cells), job, reason)
    return table


def _covered_group(item: Covered) -> tuple[str, str, str, str]:
    return item.job, item.reason, str(item.cell.platform), _label(item.cell)


def _skipped(skipped: Sequence[Skipped], *, explain: bool) -> Table:
    table = _table("skipped", "cells", "why")
    if explain:
        for cell, reason in skipped:
            _row(table, cell, reason)
        return table
    ordered = sorted(skipped, key=lambda item: (str(item.cell.platform), _label(item.cell), item.reason))
    for (platform, accelerator, reason), group in groupby(
        ordered, key=lambda item: (str(item.cell.platform), _label(item.cell), item.reason)
    ):
        cells = [item.cell for item in group]
        _row(table, _cells(f"{platform}{f' / {accelerator}' if accelerator else ''}", cells), reason)
    return table


def _label(cell: Cell) -> str:
    return cell.accelerator.label if cell.accelerator else ""


def _cells(name: str, cells: Sequence[Cell]) -> str:
    """Return many cells of one platform in a few words."""
    torches = sorted({cell.torch for cell in cells if cell.torch})
    pythons = sorted({cell.python for cell in cells})
    torch = f" / torch {_span(torches)}" if torches else ""
    return f"{name}{torch} / Python {_span(pythons)} ({len(cells)})"


def _span(versions: Sequence[object]) -> str:
    if len(versions) > 2:  # noqa: PLR2004 - two are written out
        return f"{versions[0]} to {versions[-1]}"
    return ", ".join(map(str, versions))


# ---------------------------------------------------------------- findings, trials, a release


def findings_table(findings: Sequence[Finding], wheels: int) -> Iterator[Table]:
    """Yield the findings of an audit."""
    errors = sum(finding.level is Level.ERROR for finding in findings)
    table = _table(f"{wheels} wheels, {errors} errors, {len(findings) - errors} warnings",
                   "wheel", "rule", "level", "what", "found", "expected")  # fmt: skip
    for finding in findings:
        _row(table, finding.wheel, finding.rule, finding.level, finding.message, finding.found, finding.expected)
    yield table


def trials_table(trials: Mapping[str, Sequence[Trial]]) -> Iterator[Table]:
    """Yield what was tried with each wheel."""
    table = _table("validation", "wheel", "what", "outcome", "detail")
    for wheel, tried in trials.items():
        for trial in tried:
            _row(table, wheel, trial.what, trial.outcome, trial.detail)
    yield table


def released_tables(released: Released) -> Iterator[Table]:
    """Yield the summary of a release."""
    paths = {file.file: file.path for file in released.published}
    table = _table(f"released in {released.seconds:.1f} s", "file", "size", "build", "where")
    for made in released.made:
        took = f"{made.receipt.seconds:.1f} s" if made.built else "kept"
        _row(table, made.path.name, _size(made.receipt.size), took, paths[made.path.name])
    yield table
    if released.left:
        left = _table("left for another machine", "job", "wheel", "why")
        for job, reason in released.left:
            _row(left, job.name, job.wheel, reason)
        yield left
    skipped = [trial for trial in released.trials if trial.outcome is Outcome.NOT_EXERCISED]
    if skipped:
        table = _table("not exercised", "what", "why")
        for trial in skipped:
            _row(table, trial.what, trial.detail)
        yield table


def _size(count: int) -> str:
    """Return bytes in the unit a person would choose."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004 - SI units
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
