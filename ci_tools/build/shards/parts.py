"""Builds a job in parts: lists its units, and compiles those of one shard, for the link to take them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.build import jobs
from ci_tools.build.bench.copies import open_installations
from ci_tools.build.builder import Workshop
from ci_tools.build.folders import base_folder, own_copies
from ci_tools.build.shards.assignment import ShardNumber, assign, estimate_costs
from ci_tools.build.shards.handover import SHARDS, Handover, LayeredStore
from ci_tools.build.shards.listing import ListedBuild, ListedUnit
from ci_tools.build.toolchain import Toolchain
from ci_tools.build.units.launchers import has_launchers, open_store
from ci_tools.build.units.store import read_cost
from ci_tools.errors import FatwheelError, InputError, Rejected
from ci_tools.formats import json_file
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import MADE, hold_lock, write_atomically
from ci_tools.model.plan import Job

if TYPE_CHECKING:
    from ci_tools.plan.make import Planned

LIST = "list.json"


class UnitList(NamedTuple):
    """The units of a job with the seconds that one core takes for each; `whole` says why it is built whole."""

    job: str
    inputs: dict[str, str]
    units: tuple[ListedUnit, ...] = ()
    seconds: Mapping[str, float] = {}  # by seed
    measured: int = 0  # how many of the seconds were measured
    others: tuple[str, ...] = ()  # sources that are compiled where the job is linked
    whole: str = ""

    def assign(self, shard: ShardNumber) -> tuple[str, ...]:
        """Return the seeds of the units of a shard."""
        return assign(self.seconds, shard.total)[shard.number - 1]

    def describe(self) -> str:
        """Return a sentence for a person."""
        if self.whole:
            return f"{self.job} is built whole: {self.whole}"
        known = f"{self.measured} of them measured" if self.measured else "estimated"
        rest = f"; {len(self.others)} sources are compiled at the link" if self.others else ""
        minutes = sum(self.seconds.values()) / 60
        return f"{self.job} has {len(self.units)} compile units of {minutes:.1f} minutes of one core, {known}{rest}"


class _JobInParts(NamedTuple):
    """A job that is built in parts, its tools, and the folder of its parts."""

    planned: Planned
    job: Job
    tools: Toolchain
    inputs: dict[str, str]
    folder: Path
    outside: Outside

    def run(self, listing: ListedBuild, store: LayeredStore | None, workshop: Workshop) -> FatwheelError | None:
        """Run the job's build with only the own units of a listing compiled; return its error, if it fails."""
        try:
            workshop.run_part(self.job, self.planned, self.tools, listing, store)
        except Rejected as error:
            return error
        return None


def list_units(planned: Planned, name: str, out: Path, outside: Outside) -> UnitList:
    """Return the units of a job, listed on this machine, and write them into the folder of its parts."""
    if container := jobs.open_job_container(planned, planned.job(name), out, outside):
        container.build_part(planned.job(name), planned, out, "--list")
        return json_file.structure_bytes((out / SHARDS / name / LIST).read_bytes(), UnitList, LIST)
    with _prepare(planned, name, out, outside) as (work, workshop):
        return _list(work, workshop)


def compile_shard(planned: Planned, name: str, shard: ShardNumber, out: Path, outside: Outside) -> Path:
    """Compile the units of one shard of a job, and return the folder with them; units that are there are kept.

    The units are listed first, unless the folder of the job's parts has a list of the same inputs. Raises Rejected if
    one cannot be compiled.
    """
    if container := jobs.open_job_container(planned, planned.job(name), out, outside):
        container.build_part(planned.job(name), planned, out, "--shard", f"{shard.number}/{shard.total}")
        return out / SHARDS / name / shard.folder
    with _prepare(planned, name, out, outside, shard.folder) as (work, workshop):
        listed = _read_list(work) or _list(work, workshop)
        own = frozenset(listed.assign(shard))
        share = "" if listed.whole else f"; shard {shard.number}/{shard.total} compiles {len(own)} of them"
        outside.reporter.say(f"{listed.describe()}{share}")
        sources = {unit.seed: unit.source for unit in listed.units if unit.seed in own}
        head = Handover(name, shard.number, shard.total, work.inputs, tuple(sorted(sources.values())))
        _compile(work, workshop, head._replace(whole=listed.whole), sources)
        return work.folder / shard.folder


def _compile(work: _JobInParts, workshop: Workshop, head: Handover, sources: Mapping[str, str]) -> None:
    """Compile the units of a shard, by the sources of their seeds, and write its head; raise Rejected if one fails."""
    folder, say = work.folder / f"{head.number}-of-{head.total}", work.outside.reporter.say
    head.save(folder)  # a shard that is killed has named what it is about
    if not sources:
        return
    main = open_store(work.job, work.outside)
    store, listing = LayeredStore(folder=folder, behind=(main,) if main else ()), ListedBuild(own=frozenset(sources))
    try:
        error = work.run(listing, store, workshop)
    finally:
        head._replace(units=listing.done).save(folder)  # however it ended, it may have compiled some
    lacking = sorted(source for seed, source in sources.items() if seed not in listing.done)
    if error and lacking:  # without the others' units a build may well end early
        raise error
    if error:
        say(f"the rest of the build ended early without the other shards' units: {error.brief}")
    if lacking:
        say(f"{len(lacking)} of its units are left to the link: {', '.join(lacking[:3])}")


@contextmanager
def _prepare(
    planned: Planned, name: str, out: Path, outside: Outside, part: str = "list"
) -> Iterator[tuple[_JobInParts, Workshop]]:
    """Yield the work on a job and a workshop for it; one run at a time works on one part."""
    job = planned.job(name)
    jobs.refuse_place(out, planned)
    folder = out / SHARDS / name
    tools = jobs.choose_tools(planned, job, None, outside)
    inputs = jobs.name_inputs(planned, job, tools)
    for place in (out / SHARDS, folder / part):  # a shard's folder may be put into another checkout
        with write_atomically(place / ".gitignore") as file:
            file.write(MADE)
    with hold_lock(folder / part, outside.reporter.say), open_installations(own_copies(base_folder())) as installations:
        work = _JobInParts(planned, job, tools, inputs, folder, outside)
        yield work, jobs.workshop_in(folder / part, outside, installations)


def _list(work: _JobInParts, workshop: Workshop) -> UnitList:
    """List the units of a job, and write the list."""
    why = "it compiles nothing" if work.job.kind != "native" else f"units are shared on Linux, not on {os.name}"
    whole, listing = "" if has_launchers(work.job, work.outside) else why, ListedBuild()
    if not whole:
        error = work.run(listing, None, workshop)
        failed = f"its build does not run through without its objects ({error.brief})" if error else ""
        whole = f"it runs its own program {', '.join(listing.ran)}" if listing.ran else failed
    listed = UnitList(work.job.name, work.inputs, whole=whole)
    if not whole:
        listed = _estimate(listed, listing, work)
    with write_atomically(work.folder / LIST) as file:
        file.write(json.dumps({**listed._asdict(), "units": [unit._asdict() for unit in listed.units]}).encode())
    return listed


def _estimate(listed: UnitList, listing: ListedBuild, work: _JobInParts) -> UnitList:
    """Return the list with the units of a listing, and what each takes."""
    units, store = tuple(listing.units[seed] for seed in sorted(listing.units)), open_store(work.job, work.outside)
    known = {unit.name: read_cost(unit.name, store) for unit in units} if store else {}
    measured = {name: cost.cpu for name, cost in known.items() if cost}
    costs = estimate_costs(units, measured, work.planned.catalog.source_seconds, max(len(work.job.archs), 1))
    count = sum(unit.name in measured for unit in units)
    return listed._replace(units=units, seconds=costs, measured=count, others=tuple(sorted(listing.others)))


def _read_list(work: _JobInParts) -> UnitList | None:
    """Return the list in the folder of a job's parts; None if there is none of the same inputs."""
    path = work.folder / LIST
    with suppress(InputError, OSError):
        found = json_file.structure_bytes(path.read_bytes(), UnitList, str(path))
        if found.inputs == work.inputs:
            return found
    return None
