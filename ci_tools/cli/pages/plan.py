"""Sections about a plan, its wheels, skipped combinations and warnings; and about the effect of a change on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ci_tools.cli.pages.layout import MAX_NAMES, PageSection, cut, fold, join_lines, table
from ci_tools.errors import count
from ci_tools.formats import markdown
from ci_tools.formats.markdown import code, text
from ci_tools.model.plan import Covered, Job, Plan
from ci_tools.plan.cell_ranges import SKIPPED, PlanAxes, blocks, group_cells
from ci_tools.plan.compare.sentences import sentences
from ci_tools.plan.plan_file import left

if TYPE_CHECKING:
    from ci_tools.plan.compare.comparison import Comparison, PlatformChange


def heading(plan: Plan) -> PageSection:
    """Return the heading of a page."""
    wheels, served = len(plan.jobs), len(plan.covered)
    serve = "wheel serves" if wheels == 1 else "wheels serve"
    sentence = f"{wheels:,} {serve} {served:,} of {count(plan.cells, 'combination')}"
    # A hostile project could fill the page with its name.
    return PageSection(f"## {cut(plan.project.name, 100)} {cut(plan.project.version, 100)}: {sentence}\n\n")


def note_idle(plan: Plan) -> Iterator[PageSection]:
    """Yield a note if there is nothing to build."""
    if not plan.jobs:
        yield PageSection("**There is nothing to build.**\n\n")


def note_left(plan: Plan) -> Iterator[PageSection]:
    """Yield a note for each platform that a separate workflow builds."""
    for platform in left(plan):
        yield PageSection(
            f"{code(platform)} is left to its own workflow (`own-workflow: true`), and not built here.\n\n"
        )


def list_wheels(plan: Plan) -> Iterator[PageSection]:
    """Yield the wheels with their reasons."""
    yield from table("", ("Wheel", " Serves", "Why"), (_plan_row(*group) for group in _group_by_reason(plan)))


def list_skips(plan: Plan) -> Iterator[PageSection]:
    """Yield the combinations without a wheel, and the reasons."""
    skipped = [(cells, reason) for (job, reason), cells in group_cells(plan) if job == SKIPPED]
    title = f"{count(len(plan.skipped), 'combination')} {'gets' if len(plan.skipped) == 1 else 'get'} no wheel, and why"
    axes = PlanAxes.of(plan)
    by_reason: dict[str, list[str]] = {}
    for cells, reason in skipped:
        by_reason.setdefault(reason, []).extend(str(axes.describe(block)) for block in blocks(cells))
    rows = ((cut(reason), join_lines(map(cut, which))) for reason, which in by_reason.items())
    yield from fold(title, table("", ("Why", "Which"), rows))


def _group_by_reason(plan: Plan) -> Iterator[tuple[list[Job], list[Covered]]]:
    """Yield the jobs whose wheels exist for the same reasons, with the cells that they cover."""
    reasons: dict[str, dict[str, None]] = {job.name: {} for job in plan.jobs}
    cells: dict[str, list[Covered]] = {job.name: [] for job in plan.jobs}
    for covered in plan.covered:
        reasons[covered.job][covered.reason] = None
        cells[covered.job].append(covered)
    jobs: dict[tuple[object, ...], list[Job]] = {}
    for job in plan.jobs:
        jobs.setdefault((job.platform, job.owner, *reasons[job.name]), []).append(job)  # alike but in torch or Python
    for alike in jobs.values():
        yield alike, [covered for job in alike for covered in cells[job.name]]


def _plan_row(jobs: Sequence[Job], covered: Sequence[Covered]) -> tuple[str, ...]:
    """Return one row of the plan's table."""
    names = [code(job.name) for job in jobs]
    more = len(names) - MAX_NAMES
    # one name takes no more room than "1 more"
    shown = names if more <= 1 else [*names[: MAX_NAMES - 1], f"… {more} more …", names[-1]]  # a range's ends
    owner = [f"for {code(jobs[0].owner)}"] if jobs[0].owner else []
    heading = [f"**{len(names)} wheels**"] if more > 1 else []
    return join_lines([*heading, *shown, *owner]), f"{len(covered):,}", join_lines(_reasons(covered))


def _reasons(covered: Iterable[Covered]) -> Iterator[str]:
    """Yield the reasons of some cells; if there are several, each with its platforms."""
    platforms: dict[str, dict[str, None]] = {}
    for item in covered:
        platforms.setdefault(item.reason, {})[str(item.cell.platform)] = None
    for reason, names in platforms.items():
        prefix = f"<b>{text(', '.join(names))}</b>: " if len(platforms) > 1 else ""
        first, *others = reason.split("; ")  # the planner joins them by this
        yield prefix + cut(first)
        yield from map(cut, others)


def list_warnings(plan: Plan) -> Iterator[PageSection]:
    """Yield the warnings of a plan."""
    rows = tuple(f"- ⚠️ {cut(warning)}\n" for warning in plan.warnings)
    if rows:
        yield PageSection(f"### {count(len(rows), 'warning')}\n\n", rows, "\n")


WHEEL = "a wheel"
NO_WHEEL = {SKIPPED: "no wheel", "": "not asked for"}


def describe_change(comparison: Comparison) -> Iterator[PageSection]:
    """Yield the effect of a change on the plan: first sentences, then a table, then folded details."""
    against = f" <sub>against {code(comparison.against)}</sub>"
    for sentence, reasons in sentences(comparison, code, cut):
        lines = tuple(f"- {cut(reason)}\n" for reason in reasons)
        yield PageSection(f"**{sentence}**{against}\n\n", lines, "\n" if lines else "")
        against = ""  # beside the first sentence only
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
