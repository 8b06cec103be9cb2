"""Tables about the effect of a change on the plan, about advice, and about a starter config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import Table, add_row, filled, new_table, plain, readable_size
from ci_tools.config.test_infra import InputFate, ReportLine
from ci_tools.errors import count
from ci_tools.model.plan import Plan
from ci_tools.plan.advise.option import identity
from ci_tools.plan.compare.sentences import sentences

if TYPE_CHECKING:
    from ci_tools.config.starter import WrittenConfig
    from ci_tools.config.starter.choices import PlatformChoice, Starter
    from ci_tools.plan.advise.advice import Advice, Advised
    from ci_tools.plan.compare.comparison import Comparison
    from ci_tools.plan.matrix import RunnerUse
    from ci_tools.verify.patches import Patched, PatchProof


MAX_JOBS = 15  # changed jobs that get a row each


def comparison_tables(comparison: Comparison) -> Iterator[Table]:
    """Yield the effect of a change on the plan: first sentences, then platforms, then changed jobs and new warnings."""
    told = ((sentence, *(f"  {reason}" for reason in reasons)) for sentence, reasons in sentences(comparison))
    yield new_table(f"against {comparison.against}", "", rows=((line,) for lines in told for line in lines))
    known = any(size is not None for found in comparison.rows for size in found.bytes)
    platforms = new_table("platforms", "platform", "jobs", "cells", *(["wheels"] if known else []))
    for found in comparison.rows:
        weights = (" → ".join("not known" if size is None else readable_size(size) for size in found.bytes),)
        figures = (" → ".join(map(str, dict.fromkeys(pair))) for pair in (found.jobs, found.cells))  # 7, not 7 → 7
        add_row(platforms, found.platform, *figures, *(weights if known else ()))
    yield from filled(platforms)
    yield from _other_jobs(comparison)


def _other_jobs(comparison: Comparison) -> Iterator[Table]:
    lines = [
        *((job.name, "gone", job.wheel) for job in comparison.removed),
        *((name, "changed", "; ".join(what)) for name, what in comparison.changed),
        *((job.name, "new", job.wheel) for job in comparison.added),
    ]
    jobs = new_table("jobs", "job", "", "what", rows=lines[:MAX_JOBS])  # the rest is named below
    if len(lines) > MAX_JOBS:
        add_row(jobs, f"… {len(lines) - MAX_JOBS} more", "", "--format json has them all")
    yield from filled(jobs, new_table("new warnings", "what", rows=zip(comparison.warnings)))


def advice_tables(plan: Plan, advised: Advised, patched: Sequence[Patched]) -> Iterator[Table]:
    """Yield the advice that would make a plan smaller, then for each piece its obstacles and instructions."""
    name = f"{plan.project.name} {plan.project.version}"
    if not patched:
        yield new_table(f"{name}: nothing would make this plan smaller")
        return
    fewer = f", {advised.after} with all of this{advised.limits}" if advised.after < advised.before else ""
    wheels = f"{count(advised.before, 'wheel')}{fewer}"
    table = new_table(f"{name}: {wheels}", "", "advice", "saves", "patch")
    for number, (advice, patch) in enumerate(patched, 1):
        # Its patch asks for a decision, so that the diff of all leaves it out.
        has_patch = "by itself" if advice.option.gives_up else "yes"
        add_row(table, number, advice.sentence, _saving(advice), has_patch if patch else "")
    yield table
    ways = new_table("what stands in the way, and what to do", "", "")
    for number, (advice, _) in enumerate(patched, 1):
        for place in advice.option.places:
            add_row(ways, number, place)
        add_row(ways, number, f"→ {advice.option.how}")
    yield ways


def _saving(advice: Advice) -> str:
    """Return the savings of a piece of advice; minutes and megabytes only if they were measured."""
    if advice.option.change is identity:  # it lets pip find a wheel, and saves no job
        return ""
    jobs = count(advice.before - advice.after, "job")
    if advice.minutes is None or advice.megabytes is None:
        return f"{jobs}; minutes and megabytes not measured"
    return f"{jobs}, {advice.minutes:.1f} minutes, {advice.megabytes:.1f} MB"


def describe_cost(runners: Sequence[RunnerUse]) -> str:
    """Return the jobs that a release starts by its workflows, by their runners, in a sentence."""
    shown = ", ".join(f"{one.jobs:,} on {one.runner}" for one in runners)
    return f"a release on GitHub starts {count(sum(one.jobs for one in runners), 'job')}{shown and f': {shown}'}"


def cost_table(now: Sequence[RunnerUse], later: Sequence[RunnerUse] = ()) -> Iterator[Table]:
    """Yield the jobs that a release starts by its workflows, by their runners, now and with what is advised."""
    title = f"a release on GitHub starts {count(sum(one.jobs for one in now), 'job')}"
    title += f", {sum(one.jobs for one in later)} with all of this" if later else ""
    table = new_table(title, "runner", "jobs", "minutes at most")
    after = {one.runner: one for one in later}
    for one in now:
        then = after.get(one.runner, one._replace(jobs=0, minutes=0)) if later else one  # or one figure
        figures = (dict.fromkeys(map("{:,}".format, pair)) for pair in zip(one[1:], then[1:], strict=True))
        add_row(table, one.runner, *(" → ".join(pair) for pair in figures))
    if now:
        yield table


def patch_proof_table(proofs: Sequence[PatchProof]) -> Iterator[Table]:
    """Yield the outcome of each patch."""
    table = new_table("patches, each applied to a copy", "patch", "jobs before", "after", "outcome", "detail")
    for name, before, after, outcome, details in proofs:
        add_row(table, name, before, "no plan" if after is None else after, outcome, "; ".join(details))
    yield table


def move_table(rows: Sequence[ReportLine]) -> Table:
    """Return a table of test-infra's inputs and their translation; inputs that need a person come last."""
    counts = {fate: sum(row.fate is fate for row in rows) for fate in InputFate}
    title = ", ".join(f"{count} {fate}" for fate, count in counts.items())
    in_order = sorted(rows, key=lambda row: list(InputFate).index(row.fate))
    shown = ((row.where, row.name, row.value, row.fate.value, row.what) for row in in_order)
    return new_table(title, "where", "input", "value", "", "", rows=shown)


def describe_starter(written: WrittenConfig) -> Iterator[str]:
    """Yield what was found, a line for each platform and each thing to look at."""
    found = written.starter
    where = f" in {found.folder}" if found.folder else ""
    yield plain(f"found {found.name} {found.version or '(version not stated)'}{where}, built by {found.backend}")
    for names, why in _group((_name(one), one.why) for one in found.platforms):
        yield plain(f"  {names}: {why}")
    for names, why in _group((one.platform, one.why) for one in found.left):
        yield plain(f"  left out: {names}: {why}")
    yield plain(f"  Python {', '.join(map(str, found.pythons))}; {_torch(found)}")
    for one in found.lacking:
        what = "only the trials install it" if one.extra else "users lack it, unless the project requires it"
        yield plain(f"  {one}: {what}")
    if found.manifest:
        yield plain(f"  an sdist of setuptools would lack files that its build reads; in MANIFEST.in: {found.manifest}")
    for note in found.told.notes:
        yield plain(f"  {note.place}: cibuildwheel's {note.option}: {note.what}")
    if written.callers:
        names = " ".join(written.callers)
        call, ask = ("call", "they ask") if written.callers[1:] else ("calls", "it asks")
        command = f"`fatwheel init --from-test-infra {names}` takes what {ask} for"
        yield plain(f"  {names} {call} pytorch/test-infra: {command}")
    if written.others:
        yield plain(f"  also in this source: {', '.join(map(str, written.others))}; --package names another one")
    if not found.version:
        yield "  look at `version`: the source does not state it"


def _group(reasons: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the names that share a reason together."""
    names: dict[str, list[str]] = {}
    for name, why in reasons:
        names.setdefault(why, []).append(name)
    yield from ((", ".join(found), why) for why, found in names.items())


def _name(one: PlatformChoice) -> str:
    versions = f" ({one.kind} {', '.join(map(str, one.versions))})" if one.versions else ""
    return f"{one.platform}{versions}"


def _torch(found: Starter) -> str:
    torch = found.torch
    if not torch.versions:
        return "no torch axis: nothing that is compiled uses torch"
    if torch.is_open:
        return f"every torch from {torch.versions[0]} on: {torch.why}"
    return f"torch {', '.join(map(str, torch.versions))} only: {torch.why}"
