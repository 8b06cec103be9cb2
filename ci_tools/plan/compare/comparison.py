"""Compares two plans: what changed, which line of the source or config caused it, and the steps between.

If the evidence of both sides is available, the changes are applied to the earlier plan one after the other, and each
step is planned: the figures are those of real plans. With only two plans, all places that their reasons name are
together the cause of the whole change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.catalog import Catalog
from ci_tools.errors import FatwheelError
from ci_tools.model.evidence import Evidence
from ci_tools.model.plan import Job, Plan
from ci_tools.model.platforms import Cell
from ci_tools.model.request import Request
from ci_tools.plan import planner
from ci_tools.plan.cell_ranges import SKIPPED
from ci_tools.plan.compare.changes import PlaceChange, Side, asked, is_in, place_in, shown, strip_line_numbers

if TYPE_CHECKING:
    Quote = Callable[[str], str]

MAX_STEPS = 12  # with more changed places, they are reported as one step
OF_CODE = re.compile(r"native code: (?P<place>.+?)(?: and \d+ more)?$")  # as axes.explain_key writes it
ANY = "any"  # the platform of the pure wheel, in words


class ChangedPlace(NamedTuple):
    """One place that changed, the difference, and whether the place is gone."""

    where: str  # k.cu:3, fatwheel.yml:9
    what: str  # the plan's statement about it now, or the config's new request
    gone: bool = False


class PlanStep(NamedTuple):
    """The effect of some places on the plan: the jobs before and after."""

    causes: tuple[ChangedPlace, ...]
    before: int
    after: int
    asked: bool = False  # True: the config changed; False: the source changed


class PlatformChange(NamedTuple):
    """One platform before and after: its jobs, the cells they cover, and their wheels' bytes if known."""

    platform: str
    jobs: tuple[int, int]
    cells: tuple[int, int]
    bytes: tuple[int | None, int | None]


class Moved(NamedTuple):
    """A cell whose job changed: job names, or SKIPPED, or "" if that plan did not have the cell."""

    cell: Cell
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The difference between the plans of two revisions."""

    against: str  # the other side: main, an earlier release's folder
    refusal: str = ""  # why the other side has no plan
    jobs: tuple[int, int]
    cells: tuple[int, int]  # requested
    covered: tuple[int, int]
    steps: tuple[PlanStep, ...] = ()
    rows: tuple[PlatformChange, ...] = ()  # the platforms that changed
    added: tuple[Job, ...] = ()
    removed: tuple[Job, ...] = ()
    changed: tuple[tuple[str, tuple[str, ...]], ...] = ()  # jobs that stay, and their changes
    moved: tuple[Moved, ...] = ()
    warnings: tuple[str, ...] = ()  # new ones
    same_source: bool = False  # whether both sources have identical files

    @property
    def is_same(self) -> bool:
        """Whether no job and no cell changed."""
        return not (self.refusal or self.added or self.removed or self.changed or self.moved)


def compare(before: Side, after: Side, against: str, catalog: Catalog | None = None) -> Comparison:
    """Return how a plan differs from an earlier one; with our `catalog` the steps between are planned.

    The project's version and line numbers do not count as differences.
    """
    old, new = ({job.name: job for job in side.plan.jobs} for side in (before, after))
    moved = tuple(_find_moves(before.plan, after.plan))  # also the cells that only one plan has
    told = set(map(strip_line_numbers, before.plan.warnings))
    return Comparison(
        against=against,
        jobs=(len(old), len(new)),
        cells=(before.plan.cells, after.plan.cells),
        covered=(len(before.plan.covered), len(after.plan.covered)),
        steps=tuple(_steps(before, after, catalog)),
        rows=tuple(_rows(before, after)),
        added=tuple(job for name, job in new.items() if name not in old),
        removed=tuple(job for name, job in old.items() if name not in new),
        changed=tuple(_diff_jobs(old, new, before.plan, after.plan)),
        moved=moved,
        warnings=tuple(warning for warning in after.plan.warnings if strip_line_numbers(warning) not in told),
        same_source=before.plan.pins.source_sha256 == after.plan.pins.source_sha256,
    )


def empty_comparison(after: Side, against: str, refusal: str) -> Comparison:
    """Return the comparison of a plan with no plan, and why there is none."""
    return Comparison(
        against=against,
        refusal=refusal,
        jobs=(0, len(after.plan.jobs)),
        cells=(0, after.plan.cells),
        covered=(0, len(after.plan.covered)),
        added=after.plan.jobs,
    )


# ---------------------------------------------------------------- differences


def _diff_jobs(
    old: Mapping[str, Job], new: Mapping[str, Job], before: Plan, after: Plan
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the jobs that both plans have and that differ, with the differences."""
    for name in new:
        if name not in old:
            continue
        facts = zip(_facts(old[name], before).items(), _facts(new[name], after).values(), strict=True)
        different = tuple(f"{what}: {was or 'none'} → {now or 'none'}" for (what, was), now in facts if was != now)
        if different:
            yield name, different


def _facts(job: Job, plan: Plan) -> dict[str, str]:
    """Return the facts about a job whose changes matter to a reader."""
    return {
        "wheel": job.wheel.replace(f"-{plan.project.version}", "", 1),  # each release has a new version
        "combinations": str(len(job.covers)),
        "built by Python": str(job.python),
        "built with torch": str(job.torch or ""),
        "architectures": " ".join(job.archs),
        "runner": " ".join(job.runner),
        "container": job.container or "",
        "toolchain": str(job.toolchain),
        "owner": job.owner or "",
        "required": "yes" if job.required else "no",
        "variables": " ".join(f"{name}={value}" for name, value in job.env),
        "built with": " ".join(job.build_requires),
    }


def _fates(plan: Plan) -> dict[Cell, tuple[str, str]]:
    """Return every cell's job, or SKIPPED, with the reason."""
    skipped = {cell: (SKIPPED, reason) for cell, reason in plan.skipped}
    return {cell: (job, reason) for cell, job, reason in plan.covered} | skipped


def _find_moves(before: Plan, after: Plan) -> Iterator[Moved]:
    old, new = _fates(before), _fates(after)
    for cell in dict.fromkeys((*new, *old)):
        (was, _), (now, why) = old.get(cell, ("", "")), new.get(cell, ("", ""))
        if was != now:
            yield Moved(cell, was, now, why)


def _rows(before: Side, after: Side) -> Iterator[PlatformChange]:
    """Yield the platforms whose jobs, cells or wheels changed; the wheel for all platforms comes first."""
    old, new = _jobs_by_platform(before.plan), _jobs_by_platform(after.plan)
    for platform in dict.fromkeys((*new, *old)):
        was, now = old.get(platform, ()), new.get(platform, ())
        row = PlatformChange(
            platform,
            (len(was), len(now)),
            (sum(len(job.covers) for job in was), sum(len(job.covers) for job in now)),
            (_weight(was, before.sizes), _weight(now, after.sizes)),
        )
        names = {job.name for job in was} != {job.name for job in now}
        if names or row.cells[0] != row.cells[1] or row.bytes[0] != row.bytes[1]:
            yield row


def _jobs_by_platform(plan: Plan) -> dict[str, tuple[Job, ...]]:
    jobs: dict[str, tuple[Job, ...]] = {}
    for job in plan.jobs:
        name = str(job.platform or ANY)
        jobs[name] = (*jobs.get(name, ()), job)
    return jobs


def _weight(jobs: Sequence[Job], sizes: Mapping[str, int]) -> int | None:
    """Return the bytes of some jobs' wheels, or None if one of them is not known."""
    if not all(job.name in sizes for job in jobs):
        return None
    return sum(sizes[job.name] for job in jobs)


# ---------------------------------------------------------------- the steps


def _steps(before: Side, after: Side, catalog: Catalog | None) -> Iterator[PlanStep]:
    """Yield the effect of each change on the plan, if it has one or the config asks for the change."""
    wanted = list(asked(before, after))
    if not (before.evidence and after.evidence and catalog):
        yield from _whole(before.plan, after.plan, wanted)
        return
    seen = list(shown(before.evidence, after.evidence, before, after))
    if len(seen) + len(wanted) > MAX_STEPS:
        yield from _whole(before.plan, after.plan, wanted)
        return
    yield from _walk_changes([*seen, *wanted], before, after, catalog)


def _whole(before: Plan, after: Plan, changes: Sequence[PlaceChange]) -> Iterator[PlanStep]:
    """Yield one step from plan to plan, with all places that the reasons and the config name."""
    told = _find_causes(before, after)
    wanted = tuple(ChangedPlace(change.where, change.what) for change in changes)
    if _is_other(before, after) and (told or wanted):
        yield PlanStep((*told, *wanted), len(before.jobs), len(after.jobs), asked=not told)
    elif wanted:
        yield PlanStep(wanted, len(before.jobs), len(after.jobs), asked=True)


def _walk_changes(changes: Sequence[PlaceChange], before: Side, after: Side, catalog: Catalog) -> Iterator[PlanStep]:
    """Apply one change after the other and plan each time; a change without a valid plan joins the next."""
    request, evidence, plan = before.plan.request, before.evidence, before.plan
    waiting: list[PlaceChange] = []
    for number, change in enumerate(changes, 1):
        if evidence is None:
            return
        request, evidence = change.make(request, evidence)
        waiting.append(change)
        planned = after.plan if number == len(changes) else _try_plan(request, evidence, after.plan, catalog)
        if planned is None:
            continue
        if _is_other(plan, planned) or any(one.asked for one in waiting):
            yield _step(waiting, plan, planned)
        plan, waiting = planned, []
    if not changes:
        yield from _whole(plan, after.plan, ())


def _try_plan(request: Request, evidence: Evidence, like: Plan, catalog: Catalog) -> Plan | None:
    """Return the plan of a state between the two, or None if it has no valid plan."""
    try:
        return planner.make_plan(request, evidence, catalog.extend(request.catalog), like.edition)
    except FatwheelError:
        return None


def _step(changes: Sequence[PlaceChange], before: Plan, after: Plan) -> PlanStep:
    told, causes = _find_causes(before, after), []
    places = {change.where for change in changes}
    for change in changes:
        words = [cause.what for cause in told if cause.where == change.where]
        what = change.what or "; ".join(words or [cause.what for cause in told if cause.where not in places])
        causes.append(ChangedPlace(change.where, what, change.gone))
    return PlanStep(tuple(causes), len(before.jobs), len(after.jobs), asked=all(change.asked for change in changes))


def _is_other(before: Plan, after: Plan) -> bool:
    """Whether two plans have different cells, or serve a cell by different jobs."""
    old, new = _fates(before), _fates(after)
    return old.keys() != new.keys() or any(old[cell][0] != new[cell][0] for cell in new)


# ---------------------------------------------------------------- causes in the reasons


def _find_causes(before: Plan, after: Plan) -> tuple[ChangedPlace, ...]:
    """Return the statements in the reasons of the later plan that the earlier does not have, with their places.

    If the new statements name no place, the old ones are the causes: they were there and are gone.
    """
    old, new = _parts(before), _parts(after)
    fresh, stale = _unsaid(new, old), [cause._replace(gone=True) for cause in _unsaid(old, new)]
    known = [cause for cause in fresh if not any(is_in(_brackets(cause.what), part) for part in old)]
    causes = [cause for cause in known if ":" in cause.where] or known or stale or fresh  # a line says more than a file
    merged: dict[str, ChangedPlace] = {}
    for cause in causes:
        first = merged.get(cause.where)
        merged[cause.where] = cause._replace(what=f"{first.what}; {cause.what}") if first else cause
    return tuple(merged.values())


def _parts(plan: Plan) -> list[str]:
    """Return the parts of all reasons, without duplicates."""
    reasons = [*(item.reason for item in plan.covered), *(item.reason for item in plan.skipped)]
    return list(dict.fromkeys(part for reason in dict.fromkeys(reasons) for part in reason.split("; ")))


def _unsaid(parts: Iterable[str], others: Iterable[str]) -> list[ChangedPlace]:
    """Return the parts that the others lack, as causes, if they name a place."""
    said = set(map(strip_line_numbers, others))
    return [cause for part in parts if strip_line_numbers(part) not in said and (cause := _cause(part))]


def _brackets(part: str) -> str:
    """Return the evidence in a part of a reason, which is in brackets, or the whole part."""
    return part.partition(" (")[2].removesuffix(")") or part


def _cause(part: str) -> ChangedPlace | None:
    """Return the part of a reason as a cause, or None if it names no place."""
    code = OF_CODE.match(part)
    place = place_in(_brackets(part), anywhere=True) or (code["place"] if code else "")
    return ChangedPlace(place, part) if place else None
