"""Tables about files: findings, trials, a release, its publication and its retraction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import add_row, count, near, new_table, readable_size
from ci_tools.model.files import Level, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ci_tools.cli.tables.layout import Table
    from ci_tools.index.units import Change, Withheld
    from ci_tools.model.files import Finding, Trial
    from ci_tools.publish.assembly import Assembled
    from ci_tools.publish.release import Released
    from ci_tools.publish.retraction import TargetRetraction
    from ci_tools.publish.transaction import Shown


def findings_table(findings: Sequence[Finding], wheels: int) -> Iterator[Table]:
    """Yield the findings of an audit."""
    errors = sum(finding.level is Level.ERROR for finding in findings)
    table = new_table(f"{count(wheels, 'wheel')}, {count(errors, 'error')}, {count(len(findings) - errors, 'warning')}",
                   "wheel", "rule", "level", "what", "found", "expected", "what happens", "see it")  # fmt: skip
    for finding in findings:
        add_row(table, finding.wheel, finding.rule, finding.level, finding.message, finding.found, finding.expected,
                finding.effect, finding.command)  # fmt: skip
    yield table


def trials_table(trials: Mapping[str, Sequence[Trial]]) -> Iterator[Table]:
    """Yield the trials of each wheel."""
    table = new_table("validation", "wheel", "what", "outcome", "detail")
    for wheel, tried in trials.items():
        for trial in tried:
            add_row(table, wheel, trial.what, trial.outcome, trial.detail)
    yield table


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
    if released.left:
        left = new_table("left for another machine", "job", "wheel", "why")
        for job, reason in released.left:
            add_row(left, job.name, job.wheel, reason)
        yield left
    skipped = [trial for trial in released.trials if trial.outcome is Outcome.NOT_EXERCISED]
    if skipped:
        table = new_table("not exercised", "what", "why")
        for trial in skipped:
            add_row(table, trial.what, trial.detail)
        yield table


def publication_tables(shown: Sequence[Shown], withheld: Sequence[Withheld]) -> Iterator[Table]:
    """Yield the place of each published file, and the withheld platforms with the reasons."""
    table = new_table("published", "file", "")
    for file in (file for _, files in shown for file in files):
        add_row(table, near(file.where), "new" if file.new else "there already")
    yield table
    yield from _withheld_table(withheld)


def preview_tables(changes: Sequence[tuple[str, str, Change]], withheld: Sequence[Withheld]) -> Iterator[Table]:
    """Yield the changes that publishing would make, one table for each unit and target."""
    for unit, target in dict.fromkeys((unit, target) for unit, target, _ in changes):
        table = new_table(f"{unit} at {target}: nothing is changed yet", "what", "where", "")
        for change in (change for *of, change in changes if of == [unit, target]):
            add_row(table, change.what, near(change.where), change.detail)
        yield table
    yield from _withheld_table(withheld)


def assembly_tables(found: Assembled) -> Iterator[Table]:
    """Yield the files of the complete units, and the withheld platforms with the reasons."""
    table = new_table("gathered", "unit", "file", "size", "sha256")
    for unit in found.units:
        for item in unit.files:
            add_row(table, unit.name, item.name, readable_size(item.size), item.sha256)
    yield table
    yield from _withheld_table(found.withheld)


def _withheld_table(withheld: Sequence[Withheld]) -> Iterator[Table]:
    if withheld:
        table = new_table("not published", "platform", "why")
        for name, reason in withheld:
            add_row(table, name, reason)
        yield table


def retraction_table(release: str, outcomes: Sequence[TargetRetraction]) -> Iterator[Table]:
    """Yield the actions at each target of a retraction, and those left to the user, in full so they can be copied."""
    table = new_table(release, "target", "actions")
    for outcome in outcomes:
        add_row(table, outcome.target, outcome.done)
    yield table
    if any(outcome.left for outcome in outcomes):
        left = new_table("left to you", "target", "what")
        for outcome in outcomes:
            if outcome.left:
                add_row(left, outcome.target, outcome.left)
        yield left
