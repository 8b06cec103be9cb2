"""Divides a plan's finished files into release units: each is published completely or not at all."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from ci_tools.errors import InputError, Problem, RejectedInput, nearest
from ci_tools.model.files import NOT_ASKED, BuiltWith, Level, Receipt
from ci_tools.model.names import ProjectName
from ci_tools.model.plan import SDIST
from ci_tools.model.request import STABLE, CatalogRow, Edition, Globs, Route

NOT_TRIED = "not tried on a GPU"
LONGEST = 100  # characters of a GPU's name and driver
CORE = "core"  # the pure wheel, the sdist and every required platform
UNFINISHED = "`fatwheel build`, `fatwheel audit` and `fatwheel validate`, each with the config, finish what is missing"


class JobEntry(NamedTuple):
    """The plan.json entry of the job that made a wheel; fields that depend on nothing, or are not known, are empty."""

    job: str  # linux-cuda-cu130, pure
    kind: str  # pure, native
    platform: str = ""  # linux-cuda; empty for the pure wheel
    python: str = ""  # the oldest Python that it serves, 3.10 or 3.14t
    torch: str = ""  # the torch whose headers it was built with
    accelerator: str = ""  # cu130, rocm7.1
    archs: tuple[str, ...] = ()  # 9.0, 10.0+PTX; gfx942
    toolchain: str = ""
    owner: str = ""
    covers: tuple[str, ...] = ()  # linux-cuda / cu130 / torch2.10 / cp312
    wheel: str = ""  # its file name
    public: str = ""  # the file name of its twin for PyPI
    folder: str = ""  # the index folder of its wheel; empty: every folder lists it
    also: tuple[str, ...] = ()  # the other index folders that list it
    env: tuple[tuple[str, str], ...] = ()  # the variables of its build, by the config
    native: Globs = Globs()  # the sources of its platform's native code, relative to the source root
    subdirectory: str = ""  # the project's folder below the source root


class Item(NamedTuple):
    """One file of a release."""

    path: Path
    sha256: str
    size: int  # bytes
    made: JobEntry | None  # None for the sdist
    folder: str = ""  # its index folder, cu130; empty: every folder lists it
    also: tuple[str, ...] = ()  # the other index folders that list it
    variant: tuple[str, ...] = ()  # the properties of a wheel variant (PEP 825): nvidia :: sm_arch :: 90_real
    origin: str = ""  # added: built by others; adopted: from pages of others; empty: built by a plan
    gpu: str = ""  # in words, whether and on which GPU it was tried; empty: not known, or not for GPUs
    built_with: BuiltWith = NOT_ASKED

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


class Alias(NamedTuple):
    """A copy of a CUDA wheel without its local version, under a name that a project's own setup.py asks for."""

    name: str
    path: Path
    sha256: str
    size: int  # bytes


class Offer(NamedTuple):
    """The file of a release for one combination that a user may have, or the reason why there is none."""

    platform: str  # linux-cuda
    accelerator: str  # cu130; empty: the platform has none
    torch: str  # 2.10; empty: the project uses no torch
    python: str  # 3.12, 3.14t
    file: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A part of a release that is published completely or not at all: the core, or one optional platform."""

    name: str  # core, or the platform's
    project: ProjectName
    version: str  # without a local version
    items: tuple[Item, ...]
    twins: tuple[Item, ...] = ()  # copies of its CUDA wheels without local versions, for PyPI only
    variants: tuple[Item, ...] = ()  # copies of its CUDA wheels as variants (PEP 825), for the user's own indexes only
    aliases: tuple[Alias, ...] = ()  # copies of its CUDA wheels under second names, for GitHub Releases only
    drafts: tuple[Item, ...] = ()  # sdists that become smart at the end: their bytes change, their metadata does not
    edition: Edition = STABLE
    commit: str = ""  # of the source; empty: it is not a git checkout
    is_foreign: bool = False  # whether the source is somewhere else than the config
    tag: str = ""  # of its GitHub Release
    title: str = ""
    route: Route = Route.NONE  # the files of it that go to PyPI
    offers: tuple[Offer, ...] = ()  # every requested combination
    unattested: bool = False  # whether its files have no attestation on purpose
    added: str = ""  # torch2.15: wheels for this torch, added to an existing release; empty: a whole release
    catalog: tuple[CatalogRow, ...] = ()  # the rows that the project adds to the catalog
    request_sha256: str = ""  # of what its config asks for

    @property
    def files(self) -> tuple[Item, ...]:
        """All files of the unit."""
        return (*self.items, *self.twins)


class ReleasePlan(NamedTuple):
    """The data of a plan that publishing needs."""

    project: ProjectName
    version: str
    edition: Edition
    source_sha256: str
    commit: str
    sdist: str
    jobs: tuple[JobEntry, ...]
    platforms: tuple[str, ...]  # all requested ones
    optional: tuple[str, ...]  # the release does not wait for these
    apart: tuple[str, ...]  # the optional ones that their own workflow builds
    targets: tuple[str, ...]
    route: Route
    variants: bool
    tag: str
    title: str
    offers: tuple[Offer, ...]
    gpu_commands: tuple[str, ...] = ()  # commands of the validation; one has to pass for a trial on a GPU
    awaiting_gpu: tuple[str, ...] = ()  # the jobs whose wheels have to be tried on a GPU
    added: str = ""  # torch2.15: wheels for this torch are added to an existing release
    aliases: Mapping[str, str] = MappingProxyType({})  # the second names of CUDA wheels, each with the wheel's name
    catalog: tuple[CatalogRow, ...] = ()  # the rows that the project adds to the catalog
    request_sha256: str = ""
    is_foreign: bool = False  # whether the source is somewhere else than the config


class Change(NamedTuple):
    """One thing that publishing would change at a target, or keep."""

    what: str  # add, keep, replace, remove, update
    where: str  # an address, or a path
    detail: str = ""


class Published(NamedTuple):
    """One file at a target, and whether this run added it."""

    file: str
    where: str  # an address, or a path
    new: bool


class Withheld(NamedTuple):
    """An optional platform that is not published now, and why."""

    name: str
    reason: str


def units_of(
    plan: ReleasePlan, found: Mapping[str, tuple[Path, Receipt | None]], only: str = ""
) -> tuple[tuple[Unit, ...], tuple[Withheld, ...]]:
    """Return the complete units of a plan, the core first, and the incomplete optional platforms.

    `found` are the finished files by name, each with the receipt of its present bytes, if it has one; `only` names one
    unit, which has to be complete then. Raises RejectedInput with all reasons why the core, or that unit, cannot be
    published; InputError if `only` names no unit.
    """
    members = _members(plan)
    if only:
        _refuse_none(only, members, plan)
        members = {only: members[only]}
    units, left = [], []
    for name, files in members.items():
        if is_left(name, plan, found) and not only:
            continue
        problems = [problem for file, made in files for problem in _problems(file, made, plan, found)]
        if problems and name in {CORE, only}:
            raise RejectedInput(problems, hint=UNFINISHED)
        if problems:
            left.append(Withheld(name, "; ".join(str(problem) for problem in problems)))
        elif files:
            units.append(_unit(name, files, plan, found))
    return tuple(units), tuple(left)


def is_left(name: str, plan: ReleasePlan, found: Container[str]) -> bool:
    """Whether a platform is left to its own workflow: none of its files was found."""
    own = (file for made in plan.jobs if made.platform == name for file in (made.wheel, made.public))
    return name in plan.apart and not any(file in found for file in own)


def _members(plan: ReleasePlan) -> dict[str, list[tuple[str, JobEntry | None]]]:
    """Return the files of each unit, each with its job."""
    members: dict[str, list[tuple[str, JobEntry | None]]] = {CORE: [(plan.sdist, None)] if plan.sdist else []}
    members |= {name: [] for name in plan.optional}
    for made in plan.jobs:
        wheels = [(name, made) for name in (made.wheel, made.public) if name]
        members[made.platform if made.platform in members else CORE] += wheels
    return members


def _refuse_none(only: str, members: Mapping[str, Sequence[object]], plan: ReleasePlan) -> None:
    """Raise InputError if no unit of that name can be published."""
    if members.get(only):
        return
    if only not in (CORE, *plan.platforms):
        raise InputError(f'--only: the release has no part "{only}", {nearest(only, (CORE, *plan.platforms))}')
    why = "a part of the core, which is required whole" if only not in members else "served by the core's wheels"
    raise InputError(f"--only: {only} is {why}", hint="--only core publishes the core")


def _problems(
    file: str, made: JobEntry | None, plan: ReleasePlan, found: Mapping[str, tuple[Path, Receipt | None]]
) -> Iterator[Problem]:
    """Yield the reasons why a file cannot be published."""
    what = f"{file}{f', of the job {made.job},' if made else ''}"
    if file not in found:
        yield Problem("", f"{what} is missing")
        return
    path, receipt = found[file]
    if receipt is None:
        yield Problem(str(path), "it has no receipt of its present bytes")
    elif (receipt.source, receipt.version) != (plan.source_sha256, plan.version):
        yield Problem(str(path), "it was built from another source or for another version than this plan's")
    elif receipt.job != (made.job if made else SDIST):
        yield Problem(str(path), f"its receipt is of the job {receipt.job}")
    elif not receipt.audited:
        yield Problem(str(path), "it was not audited with its plan")
    elif not receipt.is_sound:
        yield Problem(str(path), f"it was rejected: {'; '.join(_complaints(receipt))}")
    elif made and not receipt.is_good:
        yield Problem(str(path), "it was not validated: no trial of it has passed")
    elif made and made.job in plan.awaiting_gpu and not receipt.gpu(plan.gpu_commands):
        wanted = "the config's `gpu: required` waits until a command with `needs-gpu` has passed where a driver answers"
        yield Problem(str(path), f"it was {NOT_TRIED}: {wanted}")


def _complaints(receipt: Receipt) -> Iterator[str]:
    yield from (finding.message for finding in receipt.findings if finding.level is Level.ERROR)
    failed = ((trial, place.where) for place in receipt.validated for trial in place.failures)
    yield from (f"{trial.what}: {trial.detail} ({where})" for trial, where in failed)


def _unit(
    name: str,
    files: Sequence[tuple[str, JobEntry | None]],
    plan: ReleasePlan,
    found: Mapping[str, tuple[Path, Receipt | None]],
) -> Unit:
    items = {file: _item(made, *found[file], plan.gpu_commands) for file, made in files}
    twins = {made.public for _, made in files if made and made.public}
    return Unit(
        name=f"{name}-{plan.added}" if plan.added else name,
        project=plan.project,
        version=plan.version,
        items=tuple(item for file, item in items.items() if file not in twins),
        twins=tuple(item for file, item in items.items() if file in twins),
        edition=plan.edition,
        commit=plan.commit,
        is_foreign=plan.is_foreign,
        tag=plan.tag,
        title=plan.title,
        route=plan.route,
        offers=plan.offers,
        added=plan.added,
        catalog=plan.catalog,
        request_sha256=plan.request_sha256,
    )


def _item(made: JobEntry | None, path: Path, receipt: Receipt | None, gpu_commands: tuple[str, ...]) -> Item:
    if receipt is None:  # _problems has checked that there is one
        raise ValueError(path)
    where = (made.folder, made.also) if made else ("", ())
    device = "".join(char for char in receipt.gpu(gpu_commands) or "" if char.isprintable())[:LONGEST]
    tried = f"tried on {device}" if device else NOT_TRIED  # by the receipt, and not by a runner's label
    gpu = tried if made and made.accelerator else ""
    return Item(path, receipt.sha256, receipt.size, made, *where, gpu=gpu, built_with=receipt.built_with)
