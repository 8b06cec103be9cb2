"""Compares a plan with the wheels that a project has published: a pure function.

Each published wheel has the cells that an installer would give it: of several wheels for one cell, the one with the
best tag. The wheels of the plan for these cells take its place. Users whom it serves and the plan does not are a loss.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name, parse_wheel_filename

from ci_tools.model.names import Name
from ci_tools.model.pep440 import read_version
from ci_tools.model.versions import admits
from ci_tools.plan.cell_ranges import Axes, blocks
from ci_tools.plan.compare.contents import Kind, compare_parts, compare_symbols, expect_parts, sort_members
from ci_tools.plan.compare.reach import list_pythons, rank_python, reach_of, specifiers_of, systems_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ci_tools.catalog import Catalog
    from ci_tools.model.cell import Cell
    from ci_tools.model.names import FileName
    from ci_tools.model.plan import Plan
    from ci_tools.model.published import Inside, PublishedWheel, Release
    from ci_tools.model.versions import Minor
    from ci_tools.plan.compare.contents import Difference, SymbolDifference
    from ci_tools.plan.compare.reach import Reach

__all__ = ["Beside", "Contents", "Counterpart", "Verdict", "compare_published"]


MOST_NAMED = 6  # extension modules that a sentence names
NO_PLATFORM = "Fatwheel has no such platform"


class Verdict(Name):
    """Whether the wheels of the plan serve everybody whom a published wheel serves."""

    SERVED = "served"
    PARTLY = "served in part"
    UNSERVED = "not served"


class Counterpart(NamedTuple):
    """A published wheel, the jobs that serve its cells, and whom it serves and the plan does not."""

    wheel: PublishedWheel
    verdict: Verdict
    jobs: tuple[str, ...]
    cells: int  # of the request
    losses: tuple[str, ...]


class Contents(NamedTuple):
    """The same differences between the wheels of some jobs and some published wheels."""

    jobs: tuple[str, ...]
    files: tuple[str, ...]
    members: tuple[Difference, ...]
    symbols: tuple[SymbolDifference, ...]


class Beside(NamedTuple):
    """A plan beside a published release."""

    release: Release
    jobs: int  # of the plan
    wheels: tuple[Counterpart, ...]
    additions: tuple[tuple[str, tuple[Cell, ...]], ...]  # cells that only the plan serves, by job
    contents: tuple[Contents, ...]
    notes: tuple[str, ...]

    def having(self, *verdicts: Verdict) -> tuple[Counterpart, ...]:
        """Return the published wheels with one of these verdicts."""
        return tuple(one for one in self.wheels if one.verdict in verdicts)

    @property
    def serving(self) -> tuple[str, ...]:
        """The jobs that serve a published wheel."""
        return tuple(dict.fromkeys(chain.from_iterable(one.jobs for one in self.wheels)))


def compare_published(
    plan: Plan,
    catalog: Catalog,
    release: Release,
    wheels: Sequence[PublishedWheel],
    finished: Mapping[str, Inside] | None = None,
    notes: Sequence[str] = (),
) -> Beside:
    """Return a plan beside the published wheels of a release; `finished` has the contents of built wheels, by job."""
    comparer = _Comparer(plan, catalog, wheels, finished or {})
    counterparts = tuple(map(comparer.counterpart, wheels))
    return Beside(
        release,
        len(plan.jobs),
        counterparts,
        tuple(comparer.additions()),
        tuple(comparer.compare_contents(counterparts)),
        (*_notes(plan, release, wheels), *notes),
    )


class _Comparer:
    """Finds the counterparts of published wheels in one plan."""

    def __init__(
        self, plan: Plan, catalog: Catalog, wheels: Sequence[PublishedWheel], finished: Mapping[str, Inside]
    ) -> None:
        self.plan, self.catalog, self.finished = plan, catalog, finished
        self.cells = [*(item.cell for item in plan.covered), *(item.cell for item in plan.skipped)]
        torches = {cell.torch for cell in self.cells if cell.torch}
        self.reaches = {wheel.file: reach_of(wheel, torches, catalog) for wheel in wheels}
        self.jobs = {item.cell: item.job for item in plan.covered}
        self.reasons = {item.cell: item.reason for item in plan.skipped}
        self.made = {job.name: job for job in plan.jobs}
        self.parts = {
            job.name: sort_members(finished[job.name].members) if job.name in finished else expect_parts(job)
            for job in plan.jobs
        }
        self.axes = Axes.of(plan)
        self.chosen = self.choose(wheels)

    def choose(self, wheels: Sequence[PublishedWheel]) -> Mapping[str, list[Cell]]:
        """Return the cells of each wheel: those that no other wheel of its local version serves by a better tag.

        If others do so everywhere, it has all cells that it serves.
        """
        labels: dict[str, list[FileName]] = {}
        for wheel in wheels:
            labels.setdefault(wheel.label, []).append(wheel.file)
        chosen: dict[str, list[Cell]] = {wheel.file: [] for wheel in wheels}
        served: dict[str, list[Cell]] = {wheel.file: [] for wheel in wheels}
        for cell in self.cells:
            for files in labels.values():
                ranks = {file: self.reaches[file].rank(cell) for file in files if self.reaches[file].serves(cell)}
                for file, rank in ranks.items():
                    served[file].append(cell)
                    if rank == min(ranks.values()):
                        chosen[file].append(cell)
        return {file: cells or served[file] for file, cells in chosen.items()}

    def counterpart(self, wheel: PublishedWheel) -> Counterpart:
        reach, cells = self.reaches[wheel.file], self.chosen[wheel.file]
        covered = [cell for cell in cells if cell in self.jobs]
        jobs = tuple(dict.fromkeys(self.jobs[cell] for cell in covered))
        if not covered:
            why = self.explain_skips(cells, every=True) or [self.explain_unserved(wheel, reach)]
            return Counterpart(wheel, Verdict.UNSERVED, (), 0, tuple(why))
        losses = (
            *self.explain_skips(cells, every=False),
            *([f"{', '.join(reach.elsewhere)}: {NO_PLATFORM}"] if reach.elsewhere else []),
            *self.explain_older_pythons(reach, jobs),
            *self.explain_floors(reach, jobs),
            *self.explain_modules(wheel, jobs),
        )
        return Counterpart(wheel, Verdict.PARTLY if losses else Verdict.SERVED, jobs, len(covered), losses)

    def additions(self) -> Iterator[tuple[str, tuple[Cell, ...]]]:
        """Yield the cells that the plan serves and no published wheel does, by job."""
        served = {cell for cells in self.chosen.values() for cell in cells}
        for job in self.plan.jobs:
            cells = tuple(cell for cell in job.covers if cell not in served)
            if cells:
                yield job.name, cells

    # -- losses

    def explain_skips(self, cells: Sequence[Cell], *, every: bool) -> list[str]:
        """Return why cells are skipped; without `every`, not those for which there is no torch to install."""
        reasons: dict[str, list[Cell]] = {}
        for cell in (cell for cell in cells if cell in self.reasons):
            if every or not self.has_no_torch(cell):
                reasons.setdefault(self.reasons[cell], []).append(cell)
        return [f"{self.describe(group)}: {reason}" for reason, group in reasons.items()]

    def has_no_torch(self, cell: Cell) -> bool:
        return cell.torch is not None and bool(
            self.catalog.explain_missing_torch(cell.torch, cell.platform, cell.accelerator, cell.python)
        )

    def describe(self, cells: Sequence[Cell]) -> str:
        first, *others = blocks(cells)
        more = sum(map(len, others))
        return f"{self.axes.describe(first)}{f' and {more} more cells' if more else ''}"

    def explain_unserved(self, wheel: PublishedWheel, reach: Reach) -> str:
        """Return why no cell of the request is for a wheel: the first axis on which it has none."""
        if not reach.platforms:
            return NO_PLATFORM
        cells = [cell for cell in self.cells if cell.platform in reach.platforms]
        if not cells:
            return f"the config asks for no platform on {_name_hosts(reach, self.catalog)}"
        cells = [cell for cell in cells if cell.python in reach.pythons]
        if not cells:
            named = ", ".join(map(str, reach.pythons))
            return (
                f"the config does not ask for Python {named}"
                if named
                else f"no Python of Fatwheel takes {_name_tags(wheel)}"
            )
        if not reach.is_anywhere and reach.stack and not any(reach.stack.serves(cell.accelerator) for cell in cells):
            return f"the config does not ask for {reach.stack}"
        torches = ", ".join(map(str, sorted(reach.torches or ())))
        return f"the config does not ask for {f'torch {torches}' if torches else 'a torch that it requires'}"

    def explain_older_pythons(self, reach: Reach, jobs: Collection[str]) -> Iterator[str]:
        """Yield the Pythons that a published wheel serves, and that neither the request nor a wheel's tags admit."""
        asked = {cell.python for cell in self.cells}
        admitted = specifiers_of(self.plan.project.requires_python)
        tags = [parse_wheel_filename(self.made[job].wheel)[3] for job in jobs]
        lost = [
            str(python)
            for python in list_pythons(self.catalog)
            if python in reach.pythons
            and python not in asked
            and not (admits(admitted, python.version) and all(rank_python(python, one) is not None for one in tags))
        ]
        if lost:
            yield f"Python {', '.join(lost)}: the config does not ask for it"

    def explain_floors(self, reach: Reach, jobs: Collection[str]) -> Iterator[str]:
        """Yield the systems that are too old for a job's wheel, and not for the published one, nor for torch."""
        for name in jobs:
            for system in systems_of(self.made[name].wheel_platform):
                theirs, floor = reach.floors.get(system.host), system.floor
                needed = self.floor_of_torch(system.host)
                if theirs and floor and theirs < floor and not (needed and needed >= floor):
                    what = "macOS" if system.os == "macos" else "glibc"
                    yield f"{what} from {theirs} on: this plan's wheel is for {floor} and later (`wheel-platform`)"
                    return

    def explain_modules(self, wheel: PublishedWheel, jobs: Collection[str]) -> Iterator[str]:
        """Yield the extension modules of a published wheel that no wheel in its place has."""
        ours = [self.parts[job].get(Kind.MODULE) for job in jobs]
        if wheel.inside is None or None in ours:
            return
        known = set(chain.from_iterable(names or () for names in ours))
        lacking = sorted(sort_members(wheel.inside.members)[Kind.MODULE].keys() - known)
        if lacking:
            more = f" and {len(lacking) - MOST_NAMED} more" if len(lacking) > MOST_NAMED else ""
            yield f"no wheel in its place has the extension modules {', '.join(lacking[:MOST_NAMED])}{more}"

    def floor_of_torch(self, host: str) -> Minor | None:
        """Return the oldest system of a machine that torch itself is built for; None if the request has no torch."""
        if self.plan.request.torch is None:
            return None
        facts = next(facts for facts in self.catalog.platforms.values() if facts.host == host)
        return next((system.floor for system in systems_of(f"{facts.wheel_platform}_{facts.machine}")), None)

    # -- contents

    def compare_contents(self, wheels: Sequence[Counterpart]) -> Iterator[Contents]:
        """Yield the differences in contents, each with all pairs of a job and a published wheel that have it."""
        groups: dict[tuple[tuple[Difference, ...], tuple[SymbolDifference, ...]], list[tuple[str, str]]] = {}
        for one in wheels:
            inside = one.wheel.inside
            if inside is None:
                continue
            published = sort_members(inside.members)
            for name in one.jobs:
                members, own = compare_parts(self.parts[name], published), self.finished.get(name)
                symbols = tuple(compare_symbols(own, inside)) if own else ()
                groups.setdefault((members, symbols), []).append((name, one.wheel.file))
        for (members, symbols), found in groups.items():
            names, files = (tuple(dict.fromkeys(side)) for side in zip(*found, strict=True))
            yield Contents(names, files, members, symbols)


def _name_hosts(reach: Reach, catalog: Catalog) -> str:
    return ", ".join(sorted({catalog.platforms[name].host.replace("-", " ") for name in reach.platforms}))


def _name_tags(wheel: PublishedWheel) -> str:
    return " ".join(sorted({f"{tag.interpreter}-{tag.abi}" for tag in wheel.tags}))


# ---------------------------------------------------------------- notes


def _notes(plan: Plan, release: Release, wheels: Sequence[PublishedWheel]) -> Iterator[str]:
    """Yield the facts that make the comparison less than it seems."""
    project = plan.project
    if canonicalize_name(project.name) != release.project:
        yield f"the published project is {release.project}, and the plan's is {project.name}"
    version = read_version(project.version)
    if version is None or version.public != release.version.public:
        yield f"the source is {project.name} {project.version}: what differs may be new, or not yet there"
    known = str(specifiers_of(project.requires_python))
    read = (wheel.requires_python for wheel in wheels if wheel.requires is not None or wheel.requires_python)
    for required in sorted({str(specifiers_of(text)) for text in read} - {known}):
        yield f"Requires-Python is {required or 'empty'} in published wheels, and {known or 'empty'} in the source"
    for reason, files in _group_unread(wheels).items():
        yield f"{files[0]}{f' and {len(files) - 1} more' if files[1:] else ''}: {reason}"
    yanked = sum(wheel.is_yanked for wheel in wheels)
    if yanked:
        yield f"{yanked} of the published wheels are yanked"


def _group_unread(wheels: Sequence[PublishedWheel]) -> Mapping[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for wheel in wheels:
        if wheel.unread:
            reasons.setdefault(wheel.unread, []).append(wheel.file)
    return reasons
