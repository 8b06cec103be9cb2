"""Tables about a plan: its jobs, its cells, its evidence, its proof."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import Table, add_row, align, filled, fits_page, new_table
from ci_tools.errors import count
from ci_tools.model.evidence import OWN_SUFFIX, CellEvidence, Evidence, Extensions
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Cell
from ci_tools.model.request import Request
from ci_tools.plan.cell_ranges import SKIPPED, PlanAxes, accelerator_of, blocks, group_cells

if TYPE_CHECKING:
    from ci_tools.build.room import Part
    from ci_tools.build.units.forecast import JobForecast
    from ci_tools.source.python_api import Needless
    from ci_tools.verify.fingerprint import Proof

MAX_SOURCES = 3  # sources of a library that a line names
MAX_NAMES = 2  # jobs that a line names; more are counted, each name says what it is for


def plan_tables(plan: Plan, *, explain: bool) -> Iterator[Table]:
    """Yield the tables of a plan: its jobs, then the job and reason of every cell, and its warnings.

    With `explain`, each cell has a row. Without it, cells that differ only in torch and Python share a row, and each
    reason is given once, by number.
    """
    yield _job_table(plan)
    if plan.project.told and not plan.project.told.endswith(f" {plan.project.version}"):  # more than the title says
        yield new_table("version", "why", rows=[(plan.project.told,)])
    skipped = ((cell, SKIPPED, reason) for cell, reason in plan.skipped)
    each = new_table("cells", "cell", "job", "why", rows=(*plan.covered, *skipped))
    yield from [each] if explain else _group_cells(plan)
    yield from filled(new_table("warnings", "what", rows=zip(plan.warnings)))  # rows of one value


def _job_table(plan: Plan) -> Table:
    """Return the table of a plan's jobs; where it is wider than a page, the one owner of all is in the title.

    Where even the names are too long, each wheel is below its job.
    """
    asked, left = count(plan.cells, "cell"), count(len(plan.jobs), "wheel")
    title = f"{plan.project.name} {plan.project.version}: {asked} asked for, {left} to build"
    apart = {platform.platform for platform in plan.request.platforms if platform.own_workflow}
    owners = [
        f"{job.owner or ''} (in its own workflow)".strip() if job.platform in apart else job.owner or ""
        for job in plan.jobs
    ]
    named = [*dict.fromkeys(filter(None, owners))]
    columns, rows = ("job", "cells", "wheel"), [(job.name, len(job.covers), job.wheel) for job in plan.jobs]
    plain = new_table(f"{title}; owner: {', '.join(named)}" if named else title, *columns, rows=rows)
    owned = ((*row, owner) for row, owner in zip(rows, owners, strict=True))
    full = new_table(title, *columns, "owner", rows=owned) if named else plain
    shown = plain if len(named) == 1 and not fits_page(full) else full
    return shown if fits_page(shown) else _fold(shown)


def _fold(table: Table) -> Table:
    """Return a table of jobs in one column, in which each wheel is a line of its own."""
    heads, wheels = [(*row[:2], *row[3:]) for row in table.rows], [row[2] for row in table.rows]
    names, *lines = (line.strip() for line in align(((*table.columns[:2], *table.columns[3:]), *heads)))
    rows = ((f"{line}\n  {wheel}",) for line, wheel in zip(lines, wheels, strict=True))
    return new_table(table.title, names, rows=rows)


def request_table(config: str, variables: Mapping[str, str], request: Request) -> Iterator[Table]:
    """Yield where the request of a plan was read: the config, over it each environment variable with its value.

    The rows that the project adds to the catalog follow.
    """
    table = new_table("request", "read from", "value")
    add_row(table, config, "")
    if request.torch and request.torch.last:
        found = ", ".join(map(str, request.torch.versions))
        value = f"{found}: the newest that upstream has released for what is asked"
        add_row(table, f"torch: last {request.torch.last}", value)
    for name, value in variables.items():
        add_row(table, name, value)
    for row in request.catalog:
        add_row(table, row.where, f"{row.title}, for the catalog")
    yield table


def parts_table(parts: Sequence[Part]) -> Iterator[Table]:
    """Yield what is fetched to build the jobs of a plan, and the space that it takes on disk."""
    if not parts:
        return
    total = sum(part.size for part in parts)
    table = new_table(f"fetched to build: at least {total >> 20:,} MiB on disk", "what", "MiB", "for")
    for part in parts:
        whose = part.jobs[0] if len(part.jobs) == 1 else count(len(part.jobs), "job")
        add_row(table, part.what, max(part.size >> 20, 1), whose)  # 0 would say that nothing is fetched
    yield table


def batch_table(plan: Plan) -> Iterator[Table]:
    """Yield the jobs that a workflow builds in turn on one runner."""
    batches: dict[str, list[str]] = {}
    for job in plan.jobs:
        if job.batch:
            batches.setdefault(job.batch, []).append(job.name.removeprefix(f"{job.batch}-"))  # of `runner`
    rows = ((name, ", ".join(jobs)) for name, jobs in batches.items())
    title = "built in turn, each on one runner: they share all but their Python"
    yield from filled(new_table(title, "runner", "jobs", rows=rows))


def shard_table(plan: Plan) -> Iterator[Table]:
    """Yield the jobs that several runners of a workflow compile together."""
    rows = ((job.name, str(job.shards)) for job in plan.jobs if job.shards > 1)
    yield from filled(new_table("compiled by several runners, and linked by one", "job", "runners", rows=rows))


def units_table(found: Iterable[JobForecast]) -> Iterator[Table]:
    """Yield the compile units and links of the jobs that were built before: those in the store, and why not others."""
    table = new_table("compile units, by this machine's store", "job", "units stored", "links stored", "what changed")
    for one in found:
        changed = [*filter(None, one.units), *(f"link: {why}" for why in one.links if why)]
        lines = [f"{what} ({number})" for what, number in Counter(changed).most_common(MAX_SOURCES)]
        counts = [f"{kind.count('')} of {len(kind)}" if kind else "" for kind in (one.units, one.links)]  # `""`: stored
        add_row(table, one.job, *counts, "\n".join(lines).replace("<source>/", ""))  # each file is below it
    yield from filled(table)


def needless_table(found: Iterable[Needless]) -> Iterator[Table]:
    """Yield the files that each Python compiles again, though they use nothing of it, with the reasons."""
    rows = ((one.file, "\n".join(f"{place.place}: includes {place.header}" for place in one.includes)) for one in found)
    yield from filled(new_table("compiled for each Python, though nothing of it is used", "file", "why", rows=rows))


def evidence_table(evidence: Evidence, plan: Plan) -> Iterator[Table]:
    """Yield the evidence for the cells of a plan, each fact with its place in the source or as observed."""
    table = new_table("evidence", "cells", "what", "where")
    shown_cells = plan.list_cells()
    for platform in evidence.platforms:
        groups: dict[int, list[Cell]] = {}
        for cell in (cell for cell in shown_cells if cell.platform is platform.platform):
            groups.setdefault(id(platform.of(cell)), []).append(cell)  # by identity: one build's cells share the object
        for cells in groups.values():
            named = f"{cells[0]} and {len(cells) - 1} more" if len(cells) > 1 else str(cells[0])
            label = str(platform.platform) if len(groups) == 1 else named  # all cells are alike
            for what, where in _facts(platform.of(cells[0]), platform.native_files):
                add_row(table, label, what, where)
                label = ""  # once for its rows
    yield table


def _facts(shown: CellEvidence, native_files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each fact of a group of cells, and its place in the source."""
    if native_files:
        yield f"native files: {count(len(native_files), 'file')}", native_files[0]
    if shown.unsupported:
        yield "its wheel would lack kernels" if shown.is_hollow else "its build fails", shown.unsupported
    else:
        yield f"compiled: {shown.extensions}", shown.extensions_where
    for one in shown.built:
        images = f" for {' '.join(one.images)}" if one.images else ""
        sources = ", ".join(command.source for command in one.compiles[:MAX_SOURCES])  # a library may have hundreds
        more = ", …" if len(one.compiles) > MAX_SOURCES else ""
        yield f"{one.member.replace(OWN_SUFFIX, '')}{images}", f"from {sources}{more}"
    if shown.extensions is not Extensions.NONE and not shown.unsupported:
        yield f"Python API: {shown.python_api.kind}", shown.python_api.where
        yield f"torch ABI: {shown.torch_abi.kind}", shown.torch_abi.where
    for name, value in shown.switches:
        yield f"switch {name}={value}", shown.switches_where
    yield from ((f"off by default: {name}", where) for name, where in shown.off)
    for name in shown.build_requires:
        yield f"needs {name} to build", "its build imports it, and [build-system] does not name it"
    off = {name for name, _ in shown.off}
    yield from ((f"its build asks for {what}", where) for what, where in shown.asked if what not in off)  # shown above


def _group_cells(plan: Plan) -> Iterator[Table]:
    axes = PlanAxes.of(plan)
    jobs = {item.cell: item.job for item in plan.covered}
    reasons: dict[tuple[bool, str], list[Cell]] = {}
    for (job, reason), group in group_cells(plan):
        reasons.setdefault((job == SKIPPED, reason), []).extend(group)
    torch = ["torch"] if axes.torches else []
    cells, why = new_table("cells", "platforms", *torch, "Python", "job", "why"), new_table("why", "", "")
    for number, ((_, reason), group) in enumerate(reasons.items(), 1):  # the numbers stand for sentences
        add_row(why, number, reason)
        for block in blocks(group):
            ranges, names = axes.describe(block), dict.fromkeys(jobs.get(cell, SKIPPED) for cell in block)
            name = ", ".join(names) if len(names) <= MAX_NAMES else count(len(names), "job")
            add_row(cells, ranges.platforms, *([ranges.torch] if torch else []), ranges.pythons, name, number)
    yield cells
    yield why


def proof_table(proofs: Sequence[Proof], plan: Plan) -> Iterator[Table]:
    """Yield the comparisons of the cells that share a wheel, and their outcomes."""
    counts: dict[str, int] = {}
    for proof in proofs:
        counts[str(proof.verdict)] = counts.get(str(proof.verdict), 0) + len(proof.cells)
    table = new_table(
        f"proof: {', '.join(f'{count} {verdict}' for verdict, count in counts.items()) or 'no cell is covered'}",
        "job", "cells", "compared", "outcome", "detail",
    )  # fmt: skip
    axes = PlanAxes.of(plan)
    for (_, _, job, compared, verdict, detail), cells in _alike(proofs).items():
        for block in blocks(cells):
            add_row(table, job, axes.describe(block), compared or "nothing", verdict, detail)
    yield table


def _alike(proofs: Iterable[Proof]) -> dict[tuple[str, ...], list[Cell]]:
    """Return the cells grouped by platform, accelerator and the outcome of their proof."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for proof in proofs:
        for cell in proof.cells:
            key = (cell.platform, accelerator_of(cell), proof.job, proof.compared, proof.verdict, proof.detail)
            groups.setdefault(key, []).append(cell)
    return groups
