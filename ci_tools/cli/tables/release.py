"""Tables about files: findings, trials, a release, its publication and its retraction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import Table, add_row, filled, near, new_table, readable_size
from ci_tools.errors import count
from ci_tools.model.files import Finding, Level, Outcome, Trial

if TYPE_CHECKING:
    from ci_tools.index.units import Change, Withheld
    from ci_tools.publish.assembly import Assembled
    from ci_tools.publish.release import Released
    from ci_tools.publish.retraction import TargetRetraction
    from ci_tools.publish.transaction import Shown


def findings_table(findings: Sequence[Finding], wheels: int) -> Iterator[Table]:
    """Yield the findings of an audit."""
    errors = sum(finding.level is Level.ERROR for finding in findings)
    title = f"{count(wheels, 'wheel')}, {count(errors, 'error')}, {count(len(findings) - errors, 'warning')}"
    columns = ("wheel", "rule", "level", "what", "found", "expected", "what happens", "see it")
    rows = (
        (one.wheel, one.rule, one.level, one.message, one.found, one.expected, one.effect, one.command)
        for one in findings
    )
    table = new_table(title, *columns, rows=rows)
    table.is_prose = True
    yield table


def trials_table(trials: Mapping[str, Sequence[Trial]]) -> Iterator[Table]:
    """Yield the trials of each wheel."""
    rows = ((wheel, trial.what, trial.outcome, trial.detail) for wheel, tried in trials.items() for trial in tried)
    yield new_table("validation", "wheel", "what", "outcome", "detail", rows=rows)


def release_tables(released: Released) -> Iterator[Table]:
    """Yield the summary of a release: its files and their places, the jobs left, and the trials not exercised."""
    built = sum(made.built for made in released.made)
    some = f"{built} of {count(len(released.made), 'file')} built"
    work = some if built else "nothing had changed, nothing was built"
    files = new_table(f"released in {released.seconds:.1f} s: {work}", "file", "size", "time")
    for made in released.made:
        took = f"{made.receipt.seconds:.1f} s" if made.built else "kept"
        add_row(files, made.path.name, readable_size(made.receipt.size), took)
    yield files
    yield from publication_tables(released.published, released.withheld)
    left = ((job.name, job.wheel, reason) for job, reason in released.left)
    skipped = ((one.what, one.detail) for one in released.trials if one.outcome is Outcome.NOT_EXERCISED)
    yield from filled(
        new_table("left for another machine", "job", "wheel", "why", rows=left),
        new_table("not exercised", "what", "why", rows=skipped),
    )


def publication_tables(shown: Sequence[Shown], withheld: Sequence[Withheld]) -> Iterator[Table]:
    """Yield the place of each published file, and the withheld platforms with the reasons."""
    rows = ((near(file.where), "new" if file.new else "there already") for _, files in shown for file in files)
    yield new_table("published", "file", "", rows=rows)
    yield from _withheld_table(withheld)


def preview_tables(changes: Sequence[tuple[str, str, Change]], withheld: Sequence[Withheld]) -> Iterator[Table]:
    """Yield the changes that publishing would make, one table for each unit and target."""
    for unit, target in dict.fromkeys((unit, target) for unit, target, _ in changes):
        rows = ((one.what, near(one.where), one.detail) for *of, one in changes if of == [unit, target])
        yield new_table(f"{unit} at {target}: nothing is changed yet", "what", "where", "", rows=rows)
    yield from _withheld_table(withheld)


def assembly_tables(found: Assembled) -> Iterator[Table]:
    """Yield the files of the complete units, and the withheld platforms with the reasons."""
    rows = (
        (unit.name, item.name, readable_size(item.size), item.sha256) for unit in found.units for item in unit.files
    )
    yield new_table("gathered", "unit", "file", "size", "sha256", rows=rows)
    yield from _withheld_table(found.withheld)


def _withheld_table(withheld: Sequence[Withheld]) -> Iterator[Table]:
    yield from filled(new_table("not published", "platform", "why", rows=withheld))


def retraction_table(release: str, outcomes: Sequence[TargetRetraction]) -> Iterator[Table]:
    """Yield the actions at each target of a retraction, and those left to the user, in full so they can be copied."""
    yield new_table(release, "target", "actions", rows=((one.target, one.done) for one in outcomes))
    left = ((one.target, one.left) for one in outcomes if one.left)
    yield from filled(new_table("left to you", "target", "what", rows=left))
