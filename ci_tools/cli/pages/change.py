"""Sections about the effect of a change on the plan."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ci_tools.cli.pages.layout import (
    PageSection,
    cut,
    fold,
    join_lines,
    table,
)
from ci_tools.formats import markdown
from ci_tools.formats.markdown import (
    code,
)
from ci_tools.plan.cell_ranges import (
    SKIPPED,
)
from ci_tools.plan.compare.sentences import sentences

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_tools.plan.compare.comparison import Comparison, PlatformChange

WHEEL = "a wheel"
NO_WHEEL = {SKIPPED: "no wheel", "": "not asked for"}


def describe_change(comparison: Comparison) -> Iterator[PageSection]:
    """Yield the effect of a change on the plan: first sentences, then a table, then folded details."""
    against = f" <sub>against {code(comparison.against)}</sub>"
    for sentence, reasons in sentences(comparison, code, cut):
        lines = tuple(f"- {cut(reason)}\n" for reason in reasons)
        yield PageSection(f"**{sentence}**{against}\n\n", lines, "\n" if lines else "")
        against = ""
    known = any(number is not None for found in comparison.rows for number in found.bytes)
    columns = ("Platform", " Jobs", " Combinations", *([" Wheels"] if known else []))
    yield from table("", columns, (_comparison_row(found, known=known) for found in comparison.rows))
    yield from _details(comparison)


def _comparison_row(found: PlatformChange, *, known: bool) -> tuple[str, ...]:
    figures = (_arrow(*map(str, found.jobs)), _arrow(*map(str, found.cells)))
    weight = _arrow(*("size not known" if size is None else markdown.size(size) for size in found.bytes))
    return (code(found.platform), *figures, *([weight] if known else []))


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} → **{after}**"


def _details(comparison: Comparison) -> Iterator[PageSection]:
    """Yield the jobs that are new, gone or changed, the cells that gain or lose a wheel, and the new warnings."""
    jobs = [
        *((code(job.name), "new", code(job.wheel)) for job in comparison.added),
        *((code(job.name), "gone", code(job.wheel)) for job in comparison.removed),
        *((code(name), "changed", join_lines(map(cut, what))) for name, what in comparison.changed),
    ]
    kinds = (f"{len(list(same))} {kind}" for kind, same in groupby(job[1] for job in jobs))
    yield from fold(f"Jobs: {', '.join(kinds)}", table("", ("Job", "", "What"), jobs))
    yield from _count_cell_changes(comparison)
    news = tuple(f"- ⚠️ new: {cut(warning)}\n" for warning in comparison.warnings)
    if news:
        yield PageSection("", news, "\n")


def _count_cell_changes(comparison: Comparison) -> Iterator[PageSection]:
    """Yield how many cells gain or lose a wheel, or still have none, and the reasons."""
    counts: dict[tuple[str, str, str, str], int] = {}
    for cell, *jobs, reason in comparison.moved:
        before, after = (NO_WHEEL.get(str(job), WHEEL) for job in jobs)
        if (before, after) != (WHEEL, WHEEL):
            key = (str(cell.platform), before, after, "" if after == WHEEL else reason)
            counts[key] = counts.get(key, 0) + 1
    gained = sum(count for (_, _, after, _), count in counts.items() if after == WHEEL)
    lost = sum(count for (_, before, _, _), count in counts.items() if before == WHEEL)
    parts = ((gained, "gain a wheel"), (lost, "lose theirs"), (sum(counts.values()) - gained - lost, "have none still"))
    title = f"Combinations: {', '.join(f'{count:,} {what}' for count, what in parts if count)}"
    rows = ((f"{count:,}", *map(cut, key)) for key, count in counts.items())
    yield from fold(title, table("", (" How many", "Platform", "Before", "Now", "Why"), rows))
