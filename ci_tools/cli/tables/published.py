"""Tables about a plan beside the wheels that a project has published."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import add_row, count, new_table
from ci_tools.plan.cell_ranges import Axes, blocks
from ci_tools.plan.compare.contents import Kind
from ci_tools.plan.compare.published import Verdict
from ci_tools.plan.compare.published_sentences import sentences
from ci_tools.plan.compare.reach import systems_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_tools.cli.tables.layout import Table
    from ci_tools.model.plan import Plan
    from ci_tools.model.published import PublishedWheel
    from ci_tools.plan.compare.contents import Difference, SymbolDifference
    from ci_tools.plan.compare.published import Beside, Counterpart

__all__ = ["published_tables"]

MOST_JOBS = 2  # jobs that a line names; more are counted
MOST_NAMES = 6  # members or symbols that a line names


def published_tables(beside: Beside, plan: Plan, *, explain: bool) -> Iterator[Table]:
    """Yield a plan beside a published release: sentences, the published wheels, contents, and what the plan adds.

    Published wheels that differ only in Python share a row; with `explain`, each has a row.
    """
    told = new_table(f"beside {beside.release} as published", "")
    told.show_header = False
    for sentence in sentences(beside):
        add_row(told, sentence)
    yield told
    losses = {text: number for number, text in enumerate(_list_losses(beside), 1)}
    yield _each_wheel(beside, losses) if explain else _group_wheels(beside, losses)
    if losses:
        why = new_table("why not", "", "")
        why.show_header = False
        for text, number in losses.items():
            add_row(why, number, text)
        yield why
    yield from _show_contents(beside)
    yield from _show_additions(beside, plan)
    if beside.notes:
        notes = new_table("notes", "")
        notes.show_header = False
        for note in beside.notes:
            add_row(notes, note)
        yield notes


def _list_losses(beside: Beside) -> list[str]:
    return list(dict.fromkeys(text for one in sorted(beside.wheels, key=_order) for text in one.losses))


def _order(one: Counterpart) -> int:
    return list(Verdict).index(one.verdict)


def _name_jobs(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= MOST_JOBS else count(len(names), "job")


def _number_losses(one: Counterpart, losses: dict[str, int]) -> str:
    return " ".join(str(losses[text]) for text in one.losses)


def _each_wheel(beside: Beside, losses: dict[str, int]) -> Table:
    table = new_table("published wheels", "wheel", "job", "cells", "verdict", "why not")
    for one in beside.wheels:
        jobs = ", ".join(one.jobs) or "none"
        add_row(table, one.wheel.file, jobs, one.cells, one.verdict, _number_losses(one, losses))
    return table


def _group_wheels(beside: Beside, losses: dict[str, int]) -> Table:
    """Return a table with a row for the wheels that differ only in Python, or in the machine for the same Pythons."""
    groups: dict[tuple[Verdict, str, str, str], list[Counterpart]] = {}
    for one in beside.wheels:
        key = (one.verdict, one.wheel.label, _number_losses(one, losses), _name_machines(one.wheel))
        groups.setdefault(key, []).append(one)
    rows: dict[tuple[Verdict, str, str, tuple[str, ...]], list[tuple[str, list[Counterpart]]]] = {}
    for (verdict, label, why, machine), found in groups.items():
        pythons = tuple(sorted({tag for one in found for tag in _name_pythons(one.wheel)}, key=_by_number))
        rows.setdefault((verdict, label, why, pythons), []).append((machine, found))
    labels = ["local version"] if any(one.wheel.label for one in beside.wheels) else []
    table = new_table("published wheels", "", "Python", "machine", *labels, "job", "verdict", "why not")
    for (verdict, label, why, pythons), parts in sorted(rows.items(), key=lambda row: _order(row[1][0][1][0])):
        machines, wheels = ", ".join(name for name, _ in parts), [one for _, found in parts for one in found]
        jobs = tuple(dict.fromkeys(job for one in wheels for job in one.jobs))
        shown = _name_jobs(jobs) or "none"
        add_row(table, len(wheels), " ".join(pythons), machines, *([label] if labels else []), shown, verdict, why)
    return table


def _by_number(tag: str) -> tuple[str, int, str]:
    """Return a sort key: cp39 comes before cp310, and cp313 before cp313t."""
    found = re.match(r"([a-z]+)(\d)(\d*)", tag)
    return (found[1], int(found[3] or 0), tag) if found else (tag, 0, tag)


def _name_pythons(wheel: PublishedWheel) -> list[str]:
    """Return the Python and ABI tags of a wheel in short: cp312, cp313t, cp39-abi3, py3."""
    return [
        interpreter if abi in {"none", interpreter} else abi if abi == f"{interpreter}t" else f"{interpreter}-{abi}"
        for interpreter, abi in {(tag.interpreter, tag.abi) for tag in wheel.tags}
    ]


def _name_machines(wheel: PublishedWheel) -> str:
    """Return the machines of a wheel: linux x86_64; the platform tag if it is not known."""
    named: dict[str, None] = {}
    for tag in sorted({tag.platform for tag in wheel.tags}):
        named.update(dict.fromkeys([f"{system.os} {system.machine}" for system in systems_of(tag)] or [tag]))
    return ", ".join(named)


# ---------------------------------------------------------------- contents


def _show_contents(beside: Beside) -> Iterator[Table]:
    table = new_table("inside", "job", "published", "members")
    symbols = new_table("symbols of extension modules", "module", "published", "symbols")
    for one in beside.contents:
        jobs, files = _name_jobs(one.jobs), count(len(one.files), "wheel")
        lines = [line for found in one.members if (line := _describe_members(found))]
        add_row(table, jobs, files, "\n".join(lines) or "nothing")
        for found in one.symbols:
            add_row(symbols, found.module, files, "\n".join(_describe_symbols(found)) or "the same")
    yield from (shown for shown in (table, symbols) if shown.rows)


def _describe_members(found: Difference) -> str:
    """Return the members of one kind in words; "" if there are none."""
    kind = str(found.kind)
    if found.planned_only is None:
        named = f": {_name_some(found.published_only)}" if found.kind is Kind.MODULE else ""
        published = f"{count(len(found.published_only), kind)} published, in this plan not known before a build"
        return f"{published}{named}" if found.published_only else ""
    parts = [f"{count(found.both, kind)} in both"] if found.both else []
    for side, names in (("published", found.published_only), ("planned", found.planned_only)):
        if names:
            parts.append(f"only {side}{'' if found.both else f', {kind}'}: {_name_some(names)}")
    return "; ".join(parts)


def _describe_symbols(found: SymbolDifference) -> Iterator[str]:
    for what, names in (
        ("only the published one exports", found.published_exports),
        ("only the finished one exports", found.planned_exports),
        ("only the published one requires", found.published_requires),
        ("only the finished one requires", found.planned_requires),
    ):
        if names:
            yield f"{what} {_name_some(names)}"


def _name_some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return f"{', '.join(names[:MOST_NAMES])}{f' and {more} more' if more > 0 else ''}"


def _show_additions(beside: Beside, plan: Plan) -> Iterator[Table]:
    axes = Axes.of(plan)
    torch = ["torch"] if axes.torches else []
    table = new_table("only in this plan", "platforms", *torch, "Python", "job")
    for job, cells in beside.additions:
        for block in blocks(cells):
            ranges = axes.describe(block)
            add_row(table, ranges.platforms, *([ranges.torch] if torch else []), ranges.pythons, job)
    if table.rows:
        yield table
