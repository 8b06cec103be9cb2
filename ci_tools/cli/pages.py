"""Writes a plan, or the files of a release, as a page of GitHub-flavoured Markdown for a maintainer with ten seconds.

All untrusted text on the page is escaped by `markdown`, and is shown literally.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.formats import markdown
from ci_tools.formats.markdown import (
    code,
    row,
    table_head,
    text,
)
from ci_tools.model.files import Level, Outcome
from ci_tools.model.plan import SDIST
from ci_tools.plan.cell_ranges import (
    SKIPPED,
    Axes,
    blocks,
    group_cells,
)
from ci_tools.plan.compare.comparison import sentences
from ci_tools.plan.plan_file import left
from ci_tools.publish.units import CORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from ci_tools.model.files import Finding, Receipt, Trial, Validated
    from ci_tools.model.plan import Covered, Job, Plan
    from ci_tools.plan.compare.comparison import Comparison, Row
    from ci_tools.publish.folder import Finished

__all__ = ["MOST_OF_A_COMMENT", "MOST_OF_A_STEP", "plan_page", "release_page", "unattested_page"]

MOST_OF_A_STEP = 1_000_000  # bytes; GitHub accepts 1 MiB per step summary, and drops a larger one entirely
MOST_OF_A_COMMENT = 65_000  # bytes; GitHub accepts 65,536 characters
MOST_OF_A_CELL = 600  # characters; longer texts are cut
MOST_OF_A_LOG = 20_000  # characters, the last ones
MOST_NAMES = 3  # wheels that a line names one by one
SHORT_HASH = 12
CUT = "\n*The page is cut here, for GitHub takes no more: `plan.json` and the receipts have all of it.*\n"
MORE = "\n*And {count:,} more.*\n"
MARKS = {
    "passed": "✅",
    "passed in part": "🟡",
    "failed": "❌",
    "not exercised": "⚪",
    "not run": "⬜",
}


WHEEL = "a wheel"
NO_WHEEL = {SKIPPED: "no wheel", "": "not asked for"}


class _Section(NamedTuple):
    """A part of a page: its head, its lines, of which the last ones may be cut, and its tail."""

    head: str
    rows: tuple[str, ...] = ()
    tail: str = ""


def plan_page(plan: Plan, comparison: Comparison | None = None, *, most: int = MOST_OF_A_STEP) -> str:
    """Return the page of a plan, of at most `most` bytes; a comparison, if given, comes first."""
    if comparison is None:
        return _page(
            [_heading(plan), *_idle(plan), *_left(plan), *_wheels(plan), *_list_skips(plan), *_warnings(plan)], most
        )
    rest = (*_fold("The plan, and its reasons", _wheels(plan)), *_list_skips(plan))
    return _page([_heading(plan), *_left(plan), *_changes(comparison), *rest], most)


def release_page(finished: Finished, comparison: Comparison | None = None, *, most: int = MOST_OF_A_STEP) -> str:
    """Return the page of a release folder, of at most `most` bytes; failures and their owners come first."""
    plan = finished.plan
    sections = [
        _heading(plan),
        *_state(finished),
        *_left(plan),
        *(_changes(comparison) if comparison else ()),
        *_files(finished),
        *_list_trials(finished),
        *_list_missing_trials(finished),
        *_withheld(finished),
        *_list_findings(finished),
        *_list_failures(finished),
        *_fold("The plan, and its reasons", _wheels(plan)),
        *_list_skips(plan),
        *_warnings(plan),
    ]
    return _page(sections, most)


def unattested_page(files: Sequence[Path]) -> str:
    """Return the note on the page of a release whose files are not attested."""
    what = "nothing that GitHub signed says which run made them"
    return f"⚠️ **Not attested:** {_count(len(files), 'file')}, each as its receipt says; {what}.\n\n"


# ---------------------------------------------------------------- a page


def _page(sections: Iterable[_Section], most: int) -> str:
    """Join the sections that fit into `most` bytes, and add a note if any had to be cut."""
    page, room, is_cut = "", most - len(CUT.encode()), False
    for section in sections:
        fitting = _fitting(section, room - len(page.encode()))
        is_cut = is_cut or fitting is None or len(fitting) < len("".join(_whole(section)))
        page += fitting or ""
    return page + (CUT if is_cut else "")


def _whole(section: _Section) -> tuple[str, ...]:
    return (section.head, *section.rows, section.tail)


def _fitting(section: _Section, room: int) -> str | None:
    """Return a section with as many of its lines as fit into `room` bytes; None if none fits."""
    whole = "".join(_whole(section))
    if len(whole.encode()) <= room:
        return whole
    more = MORE.format(count=len(section.rows))
    left = room - sum(len(part.encode()) for part in (section.head, section.tail, more))
    shown = 0
    for line in section.rows:
        left -= len(line.encode())
        if left < 0:
            break
        shown += 1
    if not shown:
        return None
    more = MORE.format(count=len(section.rows) - shown)
    return "".join((section.head, *section.rows[:shown], more, section.tail))


def _fold(title: str, sections: Iterable[_Section], *, is_open: bool = False) -> Iterator[_Section]:
    """Yield sections folded behind a clickable title, which is Markdown."""
    start = f"<details{' open' if is_open else ''}><summary>{title}</summary>\n\n"
    for head, rows, tail in sections:
        yield _Section(start + head, rows, f"{tail}</details>\n\n")


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[_Section]:
    """Yield a table with a title, or nothing if it has no rows; its cells are Markdown."""
    lines = tuple(map(row, rows))
    if lines:
        yield _Section(f"{title}\n\n{table_head(*columns)}" if title else table_head(*columns), lines, "\n")


def _output(lines: Iterable[str]) -> _Section:
    """Return the output of a program as preformatted lines."""
    return _Section("<pre>\n", tuple(map(markdown.output, lines)), "</pre>\n")


def _cut(value: object, most: int = MOST_OF_A_CELL) -> str:
    """Return a text escaped as Markdown, with its end cut if it is longer than `most` characters."""
    whole = str(value)
    return text(whole if len(whole) <= most else f"{whole[: most - 1]}…")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _lines(parts: Iterable[str]) -> str:
    """Return the parts of a table cell, each on a line of its own."""
    return "<br>".join(parts)


# ---------------------------------------------------------------- the plan


def _heading(plan: Plan) -> _Section:
    """Return the heading of a page."""
    wheels, served = len(plan.jobs), len(plan.covered)
    serve = "wheel serves" if wheels == 1 else "wheels serve"
    sentence = f"{wheels:,} {serve} {served:,} of {_count(plan.cells, 'combination')}"
    return _Section(f"## {_cut(plan.project.name, 100)} {_cut(plan.project.version, 100)}: {sentence}\n\n")


def _idle(plan: Plan) -> Iterator[_Section]:
    """Yield a note if there is nothing to build."""
    if not plan.jobs:
        yield _Section("**There is nothing to build.**\n\n")


def _left(plan: Plan) -> Iterator[_Section]:
    """Yield a note for each platform that a separate workflow builds."""
    for platform in left(plan):
        yield _Section(f"{code(platform)} is left to its own workflow (`own-workflow: true`), and not built here.\n\n")


def _wheels(plan: Plan) -> Iterator[_Section]:
    """Yield the wheels with their reasons."""
    yield from _table("", ("Wheel", " Serves", "Why"), (_plan_row(*group) for group in _group_by_reason(plan)))


def _list_skips(plan: Plan) -> Iterator[_Section]:
    """Yield the combinations without a wheel, and the reasons."""
    skipped = [(cells, reason) for (job, reason), cells in group_cells(plan) if job == SKIPPED]
    title = (
        f"{_count(len(plan.skipped), 'combination')} {'gets' if len(plan.skipped) == 1 else 'get'} no wheel, and why"
    )
    axes = Axes.of(plan)
    by_reason: dict[str, list[str]] = {}
    for cells, reason in skipped:
        by_reason.setdefault(reason, []).extend(axes.describe(block) for block in blocks(cells))
    rows = ((_cut(reason), _lines(map(_cut, which))) for reason, which in by_reason.items())
    yield from _fold(title, _table("", ("Why", "Which"), rows))


def _group_by_reason(plan: Plan) -> Iterator[tuple[list[Job], list[Covered]]]:
    """Yield the jobs whose wheels exist for the same reasons, with the cells that they cover."""
    reasons: dict[str, dict[str, None]] = {job.name: {} for job in plan.jobs}
    cells: dict[str, list[Covered]] = {job.name: [] for job in plan.jobs}
    for covered in plan.covered:
        reasons[covered.job][covered.reason] = None
        cells[covered.job].append(covered)
    jobs: dict[tuple[object, ...], list[Job]] = {}
    for job in plan.jobs:
        jobs.setdefault((job.platform, job.owner, *reasons[job.name]), []).append(job)
    for alike in jobs.values():
        yield alike, [covered for job in alike for covered in cells[job.name]]


def _plan_row(jobs: Sequence[Job], covered: Sequence[Covered]) -> tuple[str, ...]:
    """Return one row of the plan's table."""
    names = [code(job.name) for job in jobs]
    more = len(names) - MOST_NAMES
    shown = names if more <= 1 else [*names[: MOST_NAMES - 1], f"… {more} more …", names[-1]]
    owner = [f"for {code(jobs[0].owner)}"] if jobs[0].owner else []
    heading = [f"**{len(names)} wheels**"] if more > 1 else []
    return _lines([*heading, *shown, *owner]), f"{len(covered):,}", _lines(_reasons(covered))


def _reasons(covered: Iterable[Covered]) -> Iterator[str]:
    """Yield the reasons of some cells; if there are several, each with its platforms."""
    platforms: dict[str, dict[str, None]] = {}
    for item in covered:
        platforms.setdefault(item.reason, {})[str(item.cell.platform)] = None
    for reason, names in platforms.items():
        prefix = f"<b>{text(', '.join(names))}</b>: " if len(platforms) > 1 else ""
        first, *others = reason.split("; ")
        yield prefix + _cut(first)
        yield from map(_cut, others)


def _warnings(plan: Plan) -> Iterator[_Section]:
    rows = tuple(f"- ⚠️ {_cut(warning)}\n" for warning in plan.warnings)
    if rows:
        yield _Section(f"### {_count(len(rows), 'warning')}\n\n", rows, "\n")


# ---------------------------------------------------------------- a change


def _changes(comparison: Comparison) -> Iterator[_Section]:
    """Yield the effect of a change on the plan: first sentences, then a table, then folded details."""
    against = f" <sub>against {code(comparison.against)}</sub>"
    for sentence, reasons in sentences(comparison, code, _cut):
        lines = tuple(f"- {_cut(reason)}\n" for reason in reasons)
        yield _Section(f"**{sentence}**{against}\n\n", lines, "\n" if lines else "")
        against = ""
    known = any(number is not None for found in comparison.rows for number in found.bytes)
    columns = ("Platform", " Jobs", " Combinations", *([" Wheels"] if known else []))
    yield from _table("", columns, (_comparison_row(found, known=known) for found in comparison.rows))
    yield from _details(comparison)


def _comparison_row(found: Row, *, known: bool) -> tuple[str, ...]:
    figures = (_arrow(*map(str, found.jobs)), _arrow(*map(str, found.cells)))
    weight = _arrow(*("size not known" if size is None else markdown.size(size) for size in found.bytes))
    return (code(found.platform), *figures, *([weight] if known else []))


def _arrow(before: str, after: str) -> str:
    return before if before == after else f"{before} → **{after}**"


def _details(comparison: Comparison) -> Iterator[_Section]:
    """Yield the jobs that are new, gone or changed, the cells that gain or lose a wheel, and the new warnings."""
    jobs = [
        *((code(job.name), "new", code(job.wheel)) for job in comparison.added),
        *((code(job.name), "gone", code(job.wheel)) for job in comparison.removed),
        *((code(name), "changed", _lines(map(_cut, what))) for name, what in comparison.changed),
    ]
    kinds = (f"{len(list(same))} {kind}" for kind, same in groupby(job[1] for job in jobs))
    yield from _fold(f"Jobs: {', '.join(kinds)}", _table("", ("Job", "", "What"), jobs))
    yield from _count_cell_changes(comparison)
    news = tuple(f"- ⚠️ new: {_cut(warning)}\n" for warning in comparison.warnings)
    if news:
        yield _Section("", news, "\n")


def _count_cell_changes(comparison: Comparison) -> Iterator[_Section]:
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
    rows = ((f"{count:,}", *map(_cut, key)) for key, count in counts.items())
    yield from _fold(title, _table("", (" How many", "Platform", "Before", "Now", "Why"), rows))


# ---------------------------------------------------------------- the state of a release


def _state(finished: Finished) -> Iterator[_Section]:
    """Yield whether the release is ready, and each platform that failed with its owner."""
    failing = _failing(finished)
    owners = {str(platform.platform): platform.owner for platform in finished.plan.request.platforms}
    rows = tuple(
        f"- ❌ **{text(platform)} failed**{whose}: {'; '.join(map(_cut, _few(what)))}\n"
        for platform, what in failing.items()
        for whose in [_describe_owner(owners.get(platform, ""))]
    )
    if rows:
        yield _Section("", rows, "\n")
    names = [withheld.name for withheld in finished.withheld]
    is_part = not finished.plan.sdist and not finished.plan.request.run.torch  # of one platform only
    if CORE in names or (names and is_part):
        what = "what everybody needs" if CORE in names else text(names[0])
        yield _Section(f"⛔ **Not ready to publish:** {what} is not whole yet.\n\n")
    elif names:
        parts = ", ".join(map(text, names))
        yield _Section(f"🟡 **Ready to publish without {parts}.** The rest does not wait for it.\n\n")
    else:
        files = _count(len(finished.files), "file")
        untried = " Not everything could be tried." if any(_find_missing_trials(finished)) else ""
        yield _Section(f"✅ **Ready to publish:** {files}, each built, audited and good.{untried}\n\n")


def _few(parts: Sequence[str]) -> list[str]:
    """Return the first few of some parts, and the number of the others."""
    more = len(parts) - MOST_NAMES
    return [*parts[:MOST_NAMES], *([f"and {more} more"] if more > 0 else [])]


def _describe_owner(owner: str | None) -> str:
    """Return the owner of a platform; a user or team is mentioned, so that GitHub notifies them."""
    if not owner:
        return ""
    return f", owned by {owner if markdown.OWNER.fullmatch(owner) else code(owner)}"


def _failing(finished: Finished) -> dict[str, list[str]]:
    """Return the failures by platform: audit errors, failed trials and missing wheels."""
    jobs = {job.name: job for job in finished.plan.jobs}
    sites = {site.name: site for site in finished.plan.sites}
    failing: dict[str, list[str]] = {}
    for receipt in finished.receipts.values():
        job = jobs.get(receipt.job)
        own = (str(job.platform),) if job and job.platform else (receipt.job,)
        errors = sum(finding.level is Level.ERROR for finding in receipt.findings)
        if errors:
            failing.setdefault(own[0], []).append(f"{_count(errors, 'error')} in the audit of {receipt.file}")
        for place in receipt.validated:
            site = sites.get(place.where)
            names = tuple(map(str, site.platforms)) if site and job and not job.platform else own
            for name in names if place.failures else ():
                more = f" and {len(place.failures) - 1} more" if len(place.failures) > 1 else ""
                failing.setdefault(name, []).append(f"{place.failures[0].what}{more}, {place.where}")
    for job in finished.plan.jobs:
        if job.wheel not in finished.receipts:
            failing.setdefault(str(job.platform or job.name), []).append(f"there is no wheel of {job.name}")
    return {platform: list(dict.fromkeys(what)) for platform, what in failing.items()}


def _files(finished: Finished) -> Iterator[_Section]:
    """Yield the files with their sizes and short hashes, and the full hashes in the format of `sha256sum --check`."""
    rows = (_file(name, job, finished) for name, job in finished.files.items())
    yield from _table("### Files", ("File", " Size", "sha256", "Audit"), rows)
    known = [receipt for name in finished.files if (receipt := finished.receipts.get(name))]
    if known:
        sums = (f"{receipt.sha256}  {receipt.file}" for receipt in known)
        yield from _fold("sha256 of each file", [_output(sums)])


def _file(name: str, job: str, finished: Finished) -> tuple[str, ...]:
    receipt = finished.receipts.get(name)
    if receipt is None:
        why = "⛔ no receipt of its present bytes" if name in finished.unsure else "⬜ not built"
        return f"{code(name)}<br>{text(job)}", "", "", why
    size = markdown.size(receipt.size).replace(" ", "&nbsp;")
    return f"{code(name)}<br>{text(job)}", size, code(receipt.sha256[:SHORT_HASH]), _audit(receipt)


def _audit(receipt: Receipt) -> str:
    """Return the result of a file's audit."""
    errors = sum(finding.level is Level.ERROR for finding in receipt.findings)
    warnings = len(receipt.findings) - errors
    if errors:
        return f"❌ {_count(errors, 'error')}"
    if not receipt.audited:
        return "⬜ not audited"
    return f"⚠️ {_count(warnings, 'warning')}" if warnings else "✅ good"


# ---------------------------------------------------------------- trials


class _Place(NamedTuple):
    """A place where a file was tried, or should be: a machine, and a Python on it."""

    job: str
    machine: str
    python: str
    name: str  # as in the receipt
    validated: Validated | None

    @property
    def verdict(self) -> str:
        """The outcome, as a key of MARKS."""
        return _verdict(self.validated.trials) if self.validated else "not run"


def _verdict(trials: Sequence[Trial]) -> str:
    outcomes = {trial.outcome for trial in trials}
    if Outcome.FAILED in outcomes:
        return "failed"
    if Outcome.PASSED not in outcomes:
        return "not exercised"
    return "passed in part" if Outcome.NOT_EXERCISED in outcomes else "passed"


def _places(finished: Finished) -> list[_Place]:
    """Return the plan's sites, then every other place in the receipts."""
    known = {(site.job, site.name): site for site in finished.plan.sites}
    tried: dict[tuple[str, str], Validated] = {}
    for receipt in finished.receipts.values():
        for place in receipt.validated:
            key = (receipt.job, place.where)
            before = tried.get(key)
            tried[key] = place._replace(trials=(*before.trials, *place.trials)) if before else place
    places = [
        _Place(site.job, _machine(site.runner, gpu=site.gpu), str(site.python), site.name, tried.get(key))
        for key, site in known.items()
    ]
    for (job, where), place in tried.items():
        if (job, where) not in known:
            machine, _, python = where.partition(", Python ")
            places.append(_Place(job, machine, python, where, place))
    return places


def _machine(runner: Sequence[str], *, gpu: bool) -> str:
    return f"{' '.join(runner)}{' with a GPU' if gpu else ''}"


def _list_trials(finished: Finished) -> Iterator[_Section]:
    """Yield a table of the trials: a row for each wheel, a column for each machine."""
    places = _places(finished)
    machines = list(dict.fromkeys(place.machine for place in places))
    rows = []
    for job in (SDIST, *(job.name for job in finished.plan.jobs)):
        cells = [[place for place in places if (place.job, place.machine) == (job, machine)] for machine in machines]
        if any(cells):
            rows.append((code(job), *(_lines(_format_verdicts(cell)) for cell in cells)))
    columns = ("Wheel", *(text(machine) for machine in machines))
    for head, lines, tail in _table("### What was tried where", columns, rows):
        yield _Section(head, lines, f"{tail}{_legend(places)}\n\n")


def _format_verdicts(places: Iterable[_Place]) -> Iterator[str]:
    """Yield each verdict on a machine, with its Pythons."""
    pythons: dict[str, list[str]] = {}
    for place in places:
        pythons.setdefault(place.verdict, []).append(place.python)
    for verdict, which in pythons.items():
        yield f"{MARKS[verdict]} {text(', '.join(which))}".rstrip().replace(" ", "&nbsp;")


def _legend(places: Iterable[_Place]) -> str:
    """Return the meaning of the marks in the table; the numbers beside the marks are Python versions."""
    shown = {place.verdict for place in places}
    return f"<sub>{' · '.join(f'{mark} {word}' for word, mark in MARKS.items() if word in shown)}</sub>"


def _find_missing_trials(finished: Finished) -> Iterator[tuple[_Place, str, str]]:
    """Yield everything that was not tried at a place, with the reason."""
    for place in _places(finished):
        if place.validated is None:
            built = place.job in {receipt.job for receipt in finished.receipts.values()}
            yield place, "everything", "no machine has reported on it" if built else "it is not built"
        for trial in place.validated.trials if place.validated else ():
            if trial.outcome is Outcome.NOT_EXERCISED:
                yield place, trial.what, trial.detail


def _list_missing_trials(finished: Finished) -> Iterator[_Section]:
    """Yield a table of everything that was not tried, with one row for all places that share a reason."""
    pythons: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for place, what, why in _find_missing_trials(finished):
        pythons.setdefault((what, why, place.job, place.machine), {})[place.python] = None
    machines: dict[tuple[str, str, str], list[str]] = {}
    for (what, why, job, machine), which in pythons.items():
        machines.setdefault((what, why, job), []).append(_where(machine, which))
    jobs: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (what, why, job), where in machines.items():
        jobs.setdefault((what, why, tuple(where)), []).append(code(job))
    rows = ((_lines(names), _cut(what), _lines(where), _cut(why)) for (what, why, where), names in jobs.items())
    yield from _table("### What was not tried", ("Wheel", "What", "Where", "Why"), rows)


def _where(machine: str, pythons: Iterable[str]) -> str:
    return _cut(", Python ".join(filter(None, (machine, ", ".join(pythons)))))


# ---------------------------------------------------------------- failures


def _withheld(finished: Finished) -> Iterator[_Section]:
    """Yield the parts of the release that are not published, and the reasons."""
    owners = {str(platform.platform): platform.owner for platform in finished.plan.request.platforms}
    rows = (
        (text(name), code(owner) if (owner := owners.get(name, "")) else "", _lines(map(_cut, why.split("; "))))
        for name, why in finished.withheld
    )
    yield from _table("### Withheld", ("Part", "Owner", "Why"), rows)


def _list_findings(finished: Finished) -> Iterator[_Section]:
    """Yield the findings of the audits, errors first."""
    found = [finding for receipt in finished.receipts.values() for finding in receipt.findings]
    found.sort(key=lambda finding: finding.level is not Level.ERROR)
    errors = sum(finding.level is Level.ERROR for finding in found)
    title = f"Findings: {_count(errors, 'error')}, {_count(len(found) - errors, 'warning')}"
    columns = ("", "Rule", "What", "Found", "Expected", "File")
    yield from _fold(title, _table("", columns, map(_finding, found)), is_open=bool(errors))


def _finding(finding: Finding) -> tuple[str, ...]:
    mark = "❌" if finding.level is Level.ERROR else "⚠️"
    words = (finding.message, finding.found, finding.expected)
    return mark, code(finding.rule), *map(_cut, words), code(finding.wheel)


def _list_failures(finished: Finished) -> Iterator[_Section]:
    """Yield the output of every trial that failed."""
    for receipt in finished.receipts.values():
        for place in receipt.validated:
            for trial in place.failures:
                title = f"❌ {code(receipt.file)} at {text(place.where)}: {_cut(trial.what)}"
                yield from _fold(title, [_output(trial.detail[-MOST_OF_A_LOG:].splitlines())])
