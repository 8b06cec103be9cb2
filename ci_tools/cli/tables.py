"""Output for people: tables on stdout, progress on stderr, colours and bars only on a terminal."""

from __future__ import annotations

import time
import unicodedata
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rich import box
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ci_tools.config.test_infra import Fate
from ci_tools.model.evidence import OWN_SUFFIX, Extensions
from ci_tools.model.files import Level, Outcome
from ci_tools.plan.cell_ranges import (
    SKIPPED,
    Axes,
    accelerator_of,
    blocks,
    group_cells,
)
from ci_tools.plan.compare.comparison import sentences
from ci_tools.publish.index.manifest import Root

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.progress import TaskID

    from ci_tools.config.test_infra import Row
    from ci_tools.github.doctor.check import Checked
    from ci_tools.model.cell import Cell
    from ci_tools.model.evidence import CellEvidence, Evidence
    from ci_tools.model.files import Finding, Trial
    from ci_tools.model.plan import Plan
    from ci_tools.plan.advise.advice import Advice, Advised
    from ci_tools.plan.compare.comparison import Comparison
    from ci_tools.publish.assembly import Assembled
    from ci_tools.publish.index.adoption import Outline
    from ci_tools.publish.index.maintain import Flaw
    from ci_tools.publish.release import Released
    from ci_tools.publish.retraction import Outcome as Retracted
    from ci_tools.publish.transaction import Shown
    from ci_tools.publish.units import Change, Withheld
    from ci_tools.verify.patches import Patched
    from ci_tools.verify.patches import Proof as PatchProof
    from ci_tools.verify.prover import Proof

__all__ = [
    "Talk",
    "advice_tables",
    "comparison_tables",
    "doctor_tables",
    "evidence_table",
    "findings_table",
    "flaws_table",
    "move_table",
    "patch_proof_table",
    "plain",
    "plan_tables",
    "preview_tables",
    "proof_table",
    "publication_tables",
    "release_tables",
    "retraction_table",
    "show",
    "trials_table",
]

MOST_SOURCES = 3  # sources of a library that a line names
MOST_PROJECTS = 30  # projects of an index that get a row each
MOST_JOBS = 15  # changed jobs that get a row each
WIDEST = 10_000  # columns of a table that is not wrapped
WIDE_ENOUGH = 110  # columns; up to this width a table holds names, not sentences, and only the terminal wraps it


class Talk:
    """A reporter on stderr: one line per step, and a live line above it while the step runs on a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, line: str) -> None:
        """Show one line."""
        self.console.print(Text(plain(line)), soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Iterator[_Step]:
        """Show the step's title with a bar while it runs, then one line with its result and duration."""
        started = time.monotonic()
        step = _Step(self.console, title)
        with step.live:
            yield step
        took = time.monotonic() - started
        outcome = f": {step.outcome}" if step.outcome else ""
        self.say(f"{title}{outcome} ({took:.1f} s)")


class _Step:
    """The live line of one step; it shows nothing if stderr is not a terminal."""

    def __init__(self, console: Console, title: str) -> None:
        self.outcome = ""
        self.title = plain(title)
        self.live = Progress(
            SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), console=console,
            transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self.task: TaskID = self.live.add_task(self.title, total=None)

    def progress(self, done: int, total: int) -> None:
        """Move the bar: bytes done, and bytes in total."""
        if total and self.live.tasks[0].total is None:
            self.live.columns = (*self.live.columns, BarColumn(), DownloadColumn())
        self.live.update(self.task, completed=done, total=total or None)

    def waiting(self, seconds: float) -> None:
        """Count down beside the title."""
        self.live.update(self.task, description=f"{self.title}: {seconds:.0f} s left")

    def result(self, text: str) -> None:
        """Set the end of the step's line."""
        self.outcome = text


def plain(text: str) -> str:
    """Return a text with every control and direction character escaped, so that it cannot affect a terminal."""
    return "".join(char if _is_plain(char) else char.encode("unicode_escape").decode() for char in text)


def _is_plain(char: str) -> bool:
    return char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"


def show(tables: Iterable[Table], *, on_stderr: bool = False) -> None:
    """Print tables on stdout, or on stderr if they are not the result of the command.

    Rows are wrapped only on a terminal, and only if the table is wider than both the terminal and `WIDE_ENOUGH`: such
    a table holds sentences. Otherwise rows stay whole: a broken name cannot be copied, and logs are searched by line.
    """
    stream = Console(stderr=on_stderr)
    for table in tables:
        title, table.title = table.title, None
        natural = Console(width=WIDEST).measure(table).maximum
        fits = natural <= max(stream.width, WIDE_ENOUGH) or not stream.is_terminal
        drawing = Console(width=natural if fits else stream.width, color_system=None, force_terminal=False)
        with drawing.capture() as drawn:
            drawing.print(table if table.row_count else "")
        lines = (line.rstrip() for line in drawn.get().rstrip().split("\n"))
        stream.print(Text(str(title), style="bold"), soft_wrap=True)
        print(*lines, sep="\n", end="\n\n", file=stream.file)


def move_table(rows: Sequence[Row]) -> Table:
    """Return a table of test-infra's inputs and their translation; inputs that need a person come last."""
    counts = {fate: sum(row.fate is fate for row in rows) for fate in Fate}
    table = _table(", ".join(f"{count} {fate}" for fate, count in counts.items()), "where", "input", "value", "", "")
    for row in sorted(rows, key=lambda row: list(Fate).index(row.fate)):
        table.add_row(*(plain(cell) for cell in (row.where, row.name, row.value, row.fate.value, row.what)))
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=plain(title), box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _row(table: Table, *values: object) -> None:
    table.add_row(*(Text(plain(str(value))) for value in values))


# ---------------------------------------------------------------- the plan


def plan_tables(plan: Plan, *, explain: bool) -> Iterator[Table]:
    """Yield the tables of a plan: its jobs, then the job and reason of every cell, and its warnings.

    With `explain`, each cell has a row. Without it, cells that differ only in torch and Python share a row, and each
    reason is given once, by number.
    """
    asked, left = _count(plan.cells, "cell"), _count(len(plan.jobs), "wheel")
    title = f"{plan.project.name} {plan.project.version}: {asked} asked for, {left} to build"
    jobs = _table(title, "job", "cells", "wheel", "owner")
    apart = {platform.platform for platform in plan.request.platforms if platform.own_workflow}
    for job in plan.jobs:
        whose = job.owner or ""
        whose = f"{whose} (in its own workflow)".strip() if job.platform in apart else whose
        _row(jobs, job.name, len(job.covers), job.wheel, whose)
    yield jobs
    yield from _each_cell(plan) if explain else _group_cells(plan)
    if plan.warnings:
        warnings = _table("warnings", "what")
        for warning in plan.warnings:
            _row(warnings, warning)
        yield warnings


def evidence_table(evidence: Evidence, plan: Plan) -> Iterator[Table]:
    """Yield the evidence for the cells of a plan, each fact with its place in the source or as observed."""
    table = _table("what the source shows", "cells", "what", "where")
    shown_cells = [*(item.cell for item in plan.covered), *(item.cell for item in plan.skipped)]
    for platform in evidence.platforms:
        groups: dict[int, list[Cell]] = {}
        for cell in (cell for cell in shown_cells if cell.platform is platform.platform):
            groups.setdefault(id(platform.of(cell)), []).append(cell)
        for cells in groups.values():
            label = str(platform.platform) if len(groups) == 1 else f"{cells[0]} and {len(cells) - 1} more"
            for what, where in _facts(platform.of(cells[0]), platform.native_files):
                _row(table, label, what, where)
                label = ""
    yield table


def _facts(shown: CellEvidence, native_files: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each fact of a group of cells, and its place in the source."""
    if native_files:
        yield f"native files: {_count(len(native_files), 'file')}", native_files[0]
    if shown.unsupported:
        yield "its build fails", shown.unsupported
    else:
        yield f"compiled: {shown.extensions}", shown.extensions_where
    for one in shown.built:
        images = f" for {' '.join(one.images)}" if one.images else ""
        sources = ", ".join(command.source for command in one.compiles[:MOST_SOURCES])
        more = ", …" if len(one.compiles) > MOST_SOURCES else ""
        yield f"{one.member.replace(OWN_SUFFIX, '')}{images}", f"from {sources}{more}"
    if shown.extensions is not Extensions.NONE and not shown.unsupported:
        yield f"Python API: {shown.python_api.kind}", shown.python_api.where
        yield f"torch ABI: {shown.torch_abi.kind}", shown.torch_abi.where
    for name, value in shown.switches:
        yield f"switch {name}={value}", shown.switches_where
    for name in shown.build_requires:
        yield f"needs {name} to build", "its build imports it, and [build-system] does not name it"
    yield from ((f"its build asks for {what}", where) for what, where in shown.asked)


def _each_cell(plan: Plan) -> Iterator[Table]:
    table = _table("cells", "cell", "job", "why")
    for cell, job, reason in plan.covered:
        _row(table, cell, job, reason)
    for cell, reason in plan.skipped:
        _row(table, cell, SKIPPED, reason)
    yield table


def _group_cells(plan: Plan) -> Iterator[Table]:
    reasons: dict[str, int] = {}
    axes = Axes.of(plan)
    cells = _table("cells", "cells", "job", "why")
    for (job, reason), group in group_cells(plan):
        number = reasons.setdefault(reason, len(reasons) + 1)
        for block in blocks(group):
            _row(cells, axes.describe(block), job, number)
    yield cells
    why = _table("why", "", "")
    why.show_header = False
    for reason, number in reasons.items():
        _row(why, number, reason)
    yield why


def proof_table(proofs: Sequence[Proof], plan: Plan) -> Iterator[Table]:
    """Yield the comparisons of the cells that share a wheel, and their outcomes."""
    counts: dict[str, int] = {}
    for proof in proofs:
        counts[str(proof.verdict)] = counts.get(str(proof.verdict), 0) + len(proof.cells)
    table = _table(
        f"proof: {', '.join(f'{count} {verdict}' for verdict, count in counts.items()) or 'no cell is covered'}",
        "job", "cells", "compared", "outcome", "detail",
    )  # fmt: skip
    axes = Axes.of(plan)
    for (_, _, job, compared, verdict, detail), cells in _alike(proofs).items():
        for block in blocks(cells):
            _row(table, job, axes.describe(block), compared or "nothing", verdict, detail)
    yield table


def _alike(proofs: Iterable[Proof]) -> dict[tuple[str, ...], list[Cell]]:
    """Return the cells grouped by platform, accelerator and the outcome of their proof."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for proof in proofs:
        for cell in proof.cells:
            key = (cell.platform, accelerator_of(cell), proof.job, proof.compared, proof.verdict, proof.detail)
            groups.setdefault(key, []).append(cell)
    return groups


# ---------------------------------------------------------------- a change


def comparison_tables(comparison: Comparison) -> Iterator[Table]:
    """Yield the effect of a change on the plan: first sentences, then platforms, then changed jobs and new warnings."""
    told = _table(f"against {comparison.against}", "")
    told.show_header = False
    for sentence, reasons in sentences(comparison):
        _row(told, sentence)
        for reason in reasons:
            _row(told, f"  {reason}")
    yield told
    known = any(size is not None for found in comparison.rows for size in found.bytes)
    platforms = _table("platforms", "platform", "jobs", "cells", *(["wheels"] if known else []))
    for found in comparison.rows:
        weights = (" → ".join("not known" if size is None else _size(size) for size in found.bytes),)
        figures = (" → ".join(map(str, dict.fromkeys(pair))) for pair in (found.jobs, found.cells))
        _row(platforms, found.platform, *figures, *(weights if known else ()))
    if comparison.rows:
        yield platforms
    yield from _other_jobs(comparison)


def _other_jobs(comparison: Comparison) -> Iterator[Table]:
    lines = [
        *((job.name, "gone", job.wheel) for job in comparison.removed),
        *((name, "changed", "; ".join(what)) for name, what in comparison.changed),
        *((job.name, "new", job.wheel) for job in comparison.added),
    ]
    jobs = _table("jobs", "job", "", "what")
    for line in lines[:MOST_JOBS]:
        _row(jobs, *line)
    if len(lines) > MOST_JOBS:
        _row(jobs, f"… {len(lines) - MOST_JOBS} more", "", "--format json has them all")
    if lines:
        yield jobs
    if comparison.warnings:
        warnings = _table("new warnings", "what")
        for warning in comparison.warnings:
            _row(warnings, warning)
        yield warnings


# ---------------------------------------------------------------- advice


def advice_tables(plan: Plan, advised: Advised, patched: Sequence[Patched]) -> Iterator[Table]:
    """Yield the advice that would make a plan smaller, then for each piece its obstacles and instructions."""
    name = f"{plan.project.name} {plan.project.version}"
    if not patched:
        yield _table(f"{name}: nothing would make this plan smaller")
        return
    fewer = f", {advised.after} with all of this{advised.limits}" if advised.after < advised.before else ""
    wheels = f"{_count(advised.before, 'wheel')}{fewer}"
    table = _table(f"{name}: {wheels}", "", "advice", "saves", "patch")
    for number, (advice, patch) in enumerate(patched, 1):
        has_patch = "by itself" if advice.option.gives_up else "yes"
        _row(table, number, advice.sentence, _saving(advice), has_patch if patch else "")
    yield table
    ways = _table("what stands in the way, and what to do", "", "")
    ways.show_header = False
    for number, (advice, _) in enumerate(patched, 1):
        for place in advice.option.places:
            _row(ways, number, place)
        _row(ways, number, f"→ {advice.option.how}")
    yield ways


def _saving(advice: Advice) -> str:
    """Return the savings of a piece of advice; minutes and megabytes only if they were measured."""
    jobs = _count(advice.before - advice.after, "job")
    if advice.minutes is None or advice.megabytes is None:
        return f"{jobs}; minutes and megabytes not measured"
    return f"{jobs}, {advice.minutes:.1f} minutes, {advice.megabytes:.1f} MB"


def patch_proof_table(proofs: Sequence[PatchProof]) -> Iterator[Table]:
    """Yield the outcome of each patch."""
    table = _table("patches, each applied to a copy", "patch", "jobs before", "after", "outcome", "detail")
    for name, before, after, outcome, details in proofs:
        _row(table, name, before, "no plan" if after is None else after, outcome, "; ".join(details))
    yield table


# ---------------------------------------------------------------- findings, trials, a release


def findings_table(findings: Sequence[Finding], wheels: int) -> Iterator[Table]:
    """Yield the findings of an audit."""
    errors = sum(finding.level is Level.ERROR for finding in findings)
    table = _table(f"{_count(wheels, 'wheel')}, {_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}",
                   "wheel", "rule", "level", "what", "found", "expected")  # fmt: skip
    for finding in findings:
        _row(table, finding.wheel, finding.rule, finding.level, finding.message, finding.found, finding.expected)
    yield table


def trials_table(trials: Mapping[str, Sequence[Trial]]) -> Iterator[Table]:
    """Yield the trials of each wheel."""
    table = _table("validation", "wheel", "what", "outcome", "detail")
    for wheel, tried in trials.items():
        for trial in tried:
            _row(table, wheel, trial.what, trial.outcome, trial.detail)
    yield table


def release_tables(released: Released) -> Iterator[Table]:
    """Yield the summary of a release: its files and their places, the jobs left, and the trials not exercised."""
    built = sum(made.built for made in released.made)
    work = (
        f"{built} of {_count(len(released.made), 'file')} built" if built else "nothing had changed, nothing was built"
    )
    files = _table(f"released in {released.seconds:.1f} s: {work}", "file", "size", "time")
    for made in released.made:
        took = f"{made.receipt.seconds:.1f} s" if made.built else "kept"
        _row(files, made.path.name, _size(made.receipt.size), took)
    yield files
    yield from publication_tables(released.published, released.withheld)
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


def publication_tables(shown: Sequence[Shown], withheld: Sequence[Withheld]) -> Iterator[Table]:
    """Yield the place of each published file, and the withheld platforms with the reasons."""
    table = _table("published", "file", "where", "")
    for target, files in shown:
        for file in files:
            _row(table, file.file, _near(file.where), "new" if file.new else f"at {target} already")
    yield table
    yield from _withheld_table(withheld)


def preview_tables(changes: Sequence[tuple[str, str, Change]], withheld: Sequence[Withheld]) -> Iterator[Table]:
    """Yield the changes that publishing would make, one table for each unit and target."""
    for unit, target in dict.fromkeys((unit, target) for unit, target, _ in changes):
        table = _table(f"{unit} at {target}: nothing is changed yet", "what", "where", "")
        for change in (change for *of, change in changes if of == [unit, target]):
            _row(table, change.what, _near(change.where), change.detail)
        yield table
    yield from _withheld_table(withheld)


def assembly_tables(found: Assembled) -> Iterator[Table]:
    """Yield the files of the complete units, and the withheld platforms with the reasons."""
    table = _table("gathered", "unit", "file", "size", "sha256")
    for unit in found.units:
        for item in unit.files:
            _row(table, unit.name, item.name, _size(item.size), item.sha256)
    yield table
    yield from _withheld_table(found.withheld)


def _withheld_table(withheld: Sequence[Withheld]) -> Iterator[Table]:
    if withheld:
        table = _table("not published", "platform", "why")
        for name, reason in withheld:
            _row(table, name, reason)
        yield table


def adoption_tables(outline: Outline, *, done: bool) -> Iterator[Table]:
    """Yield the changes of an index's adoption: by project, or as a sum if there are many, and the parts left as is."""
    title = "adopted" if done else "to adopt"
    columns = ("hashed", "METADATA written") if done else ("to hash", "METADATA to write")
    table = _table(title, "project", "files", "new", *columns, "other links")
    shown = outline.projects if len(outline.projects) <= MOST_PROJECTS else ()
    for name, files, new, unhashed, size, metadata, links in shown:
        _row(table, name, files, new, f"{unhashed} ({_size(size)})" if size else unhashed, metadata, links)
    if not shown or len(shown) > 1:
        numbers = ((row.files, row.new, row.unhashed, row.metadata, row.links) for row in outline.projects)
        sums = (f"{sum(column):,}" for column in zip(*numbers, strict=True))
        _row(table, _count(len(outline.projects), "project"), *sums)
    yield table
    fronts = {Root.OWN: "ours from then on", Root.SHARED: "shared: a line of ours joins them", Root.KEPT: "left alone"}
    pages = _table("", "", "")
    pages.show_header = False
    kept = ", kept in .fatwheel/replaced" if outline.pages else ""
    _row(pages, "pages of others that ours replace", f"{outline.pages:,}{kept}")
    _row(pages, "pages that list projects", fronts[outline.root])
    yield pages
    if outline.left:
        left = _table("left as it is", "where", "why")
        for where, why in outline.left:
            _row(left, where, why)
        yield left


def flaws_table(flaws: Sequence[Flaw]) -> Iterator[Table]:
    """Yield the flaws of an index, and the repair of each."""
    table = _table(_count(len(flaws), "flaw"), "where", "what", "")
    for flaw in flaws:
        _row(table, flaw.key, flaw.what, flaw.done)
    yield table


def retraction_table(release: str, outcomes: Sequence[Retracted]) -> Iterator[Table]:
    """Yield the actions at each target of a retraction, and those left to the user, in full so they can be copied."""
    table = _table(release, "target", "what was done")
    for outcome in outcomes:
        _row(table, outcome.target, outcome.done)
    yield table
    if any(outcome.left for outcome in outcomes):
        left = _table("left to you", "target", "what")
        for outcome in outcomes:
            if outcome.left:
                _row(left, outcome.target, outcome.left)
        yield left


def doctor_tables(checked: Checked) -> Iterator[Table]:
    """Yield the findings in a repository on GitHub, then for each the reason why it matters and the fix."""
    if checked.mended:
        mended = _table("mended over the API", "what", "outcome")
        for what, outcome in checked.mended:
            _row(mended, what, outcome)
        yield mended
    title = _count(len(checked.findings), "finding") if checked.findings else "nothing is wrong"
    table = _table(f"{checked.repository}: {title}", "", "weight", "where", "what")
    ways = _table("why, and what to do", "", "")
    ways.show_header = False
    for number, finding in enumerate(checked.findings, 1):
        _row(table, number, finding.weight, finding.where, finding.what)
        _row(ways, number, finding.why)
        _row(ways, "", f"→ {finding.mend}{' (--fix does it)' if finding.fix else ''}")
    yield table
    if checked.findings:
        yield ways


def _near(address: str) -> str:
    """Return an address; for a `file:` address, the path, relative to the working folder if it lies there."""
    if not address.startswith("file:"):
        return address
    path, here = Path(unquote(urlsplit(address).path)), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _size(count: int) -> str:
    """Return a number of bytes with a readable SI unit."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004 - SI units
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
