"""From a plan and its finished files to release units: what is published all or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.edition import tag_of, title_of
from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.model import STABLE, Channel, Edition, Level, Outcome, Route

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_tools.model import Receipt

__all__ = ["CORE", "Change", "Item", "Made", "Offer", "Published", "Unit", "Withheld", "units_of"]

CORE = "core"  # the pure wheel, the sdist and every required platform
UNFINISHED = "`fatwheel build`, `fatwheel audit` and `fatwheel validate`, each with the config, finish what is missing"


class Made(NamedTuple):
    """What a plan says of the job that made a wheel, in the words of plan.json; all that depends on none is empty."""

    job: str  # linux-cuda-cu130, pure
    kind: str  # pure, native
    platform: str  # linux-cuda; empty for the pure wheel
    python: str  # the oldest it serves, 3.10 or 3.14t
    torch: str  # the torch whose headers it was built with
    accelerator: str  # cu130, rocm7.1
    archs: tuple[str, ...]  # 9.0, 10.0+PTX; gfx942
    toolchain: str
    owner: str
    covers: tuple[str, ...]  # linux-cuda / cu130 / torch2.10 / cp312
    public: str = ""  # the file name of its twin for PyPI


class Item(NamedTuple):
    """One file of a release."""

    path: Path
    sha256: str
    size: int  # bytes
    made: Made | None  # None for the sdist
    folder: str = ""  # the index folder it lies in, cu130; empty: every one lists it
    also: tuple[str, ...] = ()  # the other index folders that list it
    variant: tuple[str, ...] = ()  # what a wheel variant needs (PEP 825): nvidia :: sm_arch :: 90_real

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


class Offer(NamedTuple):
    """What a release has for one combination a user may have: a file, or the reason why there is none."""

    platform: str  # linux-cuda
    accelerator: str  # cu130; empty where the platform has none
    torch: str  # 2.10; empty where the project uses no torch
    python: str  # 3.12, 3.14t
    file: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is published all or not at all: the core, or one optional platform."""

    name: str  # core, or the platform's
    project: str
    version: str  # without a local version
    items: tuple[Item, ...]
    twins: tuple[Item, ...] = ()  # wheels of its CUDA once more, without their local versions: for PyPI alone
    variants: tuple[Item, ...] = ()  # wheels of its CUDA once more (PEP 825): for indexes of one's own alone
    edition: Edition = STABLE
    commit: str = ""  # of the source; empty where that is no git checkout
    tag: str = ""  # of its GitHub Release
    title: str = ""
    route: Route = Route.NONE  # what PyPI gets of it
    offers: tuple[Offer, ...] = ()  # every combination asked for

    @property
    def files(self) -> tuple[Item, ...]:
        """All of its files."""
        return (*self.items, *self.twins)


class Change(NamedTuple):
    """One thing that publishing would change at a target, or leaves as it is."""

    what: str  # add, keep, replace, remove, update
    where: str  # an address, or a path
    detail: str = ""


class Published(NamedTuple):
    """One file at a target, and whether this run put it there."""

    file: str
    where: str  # an address, or a path
    new: bool


class Withheld(NamedTuple):
    """An optional platform that is not published now, and why."""

    name: str
    reason: str


def units_of(
    plan: Mapping[str, Any], found: Mapping[str, tuple[Path, Receipt | None]], only: str = ""
) -> tuple[tuple[Unit, ...], tuple[Withheld, ...]]:
    """Return the units of a plan that are whole, the core first, and the optional platforms that are not.

    `only` names one of them, which has to be whole then.

    `plan` is what a plan.json holds; `found` the finished files by name, each with the receipt of its present bytes, if
    it has one. Raises RejectedInput with all that keeps the core from being published, InputError where it is no plan.
    """
    try:
        return _units(plan, found, only)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        msg = f"this is not a plan that can be published: {error!r}"
        raise InputError(msg, hint="`fatwheel plan --out` and `fatwheel release` write one") from None


def _units(
    plan: Mapping[str, Any], found: Mapping[str, tuple[Path, Receipt | None]], only: str
) -> tuple[tuple[Unit, ...], tuple[Withheld, ...]]:
    members: dict[str, list[tuple[str, Made | None]]] = {CORE: [(plan["sdist"], None)]}
    members |= {name: [] for name in _optional(plan)}
    for job in plan["jobs"]:
        wheels = [(name, _made(job)) for name in (job["wheel"], job["public"]) if name]
        members[job["platform"] if job["platform"] in members else CORE] += wheels
    units, left = [], []
    for name, files in members.items() if not only else [(only, members.get(only, []))]:
        problems = [problem for file, made in files for problem in _problems(file, made, plan, found)]
        if name in {CORE, only} and problems:
            raise RejectedInput(problems, hint=UNFINISHED)
        if problems:
            left.append(Withheld(name, "; ".join(str(problem) for problem in problems)))
        elif name == only and not files:
            msg = f"{name} has no wheel of its own: the core's serve it"
            raise InputError(msg)
        elif files:
            units.append(_unit(name, files, plan, found))
    return tuple(units), tuple(left)


def _optional(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield the platforms that the release does not wait for."""
    yield from (asked["platform"] for asked in plan["request"]["platforms"] if not asked["required"])


def _made(job: Mapping[str, Any]) -> Made:
    accelerator = job["accelerator"] or {}
    return Made(
        job=job["name"],
        kind=job["kind"],
        platform=job["platform"] or "",
        python=job["python"],
        torch=job["torch"] or "",
        accelerator=accelerator.get("label", ""),
        archs=tuple(accelerator.get("archs", ())),
        toolchain=job["toolchain"],
        owner=job["owner"] or "",
        covers=tuple(job["covers"]),
        public=job["public"] or "",
    )


def _problems(
    file: str, made: Made | None, plan: Mapping[str, Any], found: Mapping[str, tuple[Path, Receipt | None]]
) -> Iterator[Problem]:
    """Yield what keeps a file from being published."""
    what = f"{file}{f', of the job {made.job},' if made else ''}"
    if file not in found:
        yield Problem("", f"{what} is missing")
        return
    path, receipt = found[file]
    if receipt is None:
        yield Problem(str(path), "it has no receipt of its present bytes")
    elif receipt.source != plan["pins"]["source_sha256"] or receipt.version != plan["project"]["version"]:
        yield Problem(str(path), "it was built from another source or for another version than this plan's")
    elif not receipt.audited:
        yield Problem(str(path), "it was not audited with its plan")
    elif not receipt.is_sound:
        yield Problem(str(path), f"it is bad: {'; '.join(_complaints(receipt))}")
    elif made and not receipt.is_good:
        yield Problem(str(path), "it was not validated: nothing that was tried with it has passed")


def _complaints(receipt: Receipt) -> Iterator[str]:
    yield from (finding.message for finding in receipt.findings if finding.level is Level.ERROR)
    yield from (f"{trial.what}: {trial.detail}" for trial in receipt.trials if trial.outcome is Outcome.FAILED)


def _unit(
    name: str,
    files: Sequence[tuple[str, Made | None]],
    plan: Mapping[str, Any],
    found: Mapping[str, tuple[Path, Receipt | None]],
) -> Unit:
    project, request = plan["project"], plan["request"]
    known = {"name": project["name"], "version": project["version"]}
    edition = Edition(Channel(plan["edition"]["channel"]), plan["edition"]["candidate"], plan["edition"]["date"])
    return Unit(
        name=name,
        project=project["name"],
        version=project["version"],
        items=tuple(_item(made, *found[file]) for file, made in files if not _is_twin(file, made)),
        twins=tuple(_item(made, *found[file]) for file, made in files if _is_twin(file, made)),
        edition=edition,
        commit=plan["pins"]["commit"],
        tag=tag_of(edition, request["release"]["tag"], known),
        title=title_of(edition, request["release"]["title"], known),
        route=Route(request["publish"]["pypi"]),
        offers=tuple(_offers(plan)),
    )


def _is_twin(file: str, made: Made | None) -> bool:
    return made is not None and file == made.public


def _item(made: Made | None, path: Path, receipt: Receipt | None) -> Item:
    if receipt is None:  # _problems has shown that there is one
        raise ValueError(path)
    return Item(path, receipt.sha256, receipt.size, made, receipt.folder, receipt.also)


def _offers(plan: Mapping[str, Any]) -> Iterator[Offer]:
    """Yield every combination that was asked for, with its wheel or the reason why it has none."""
    wheels = {job["name"]: job["wheel"] for job in plan["jobs"]}
    for cell in (*plan["covered"], *plan["skipped"]):
        where = (cell["platform"], cell["accelerator"], cell["torch"], cell["python"])
        yield Offer(*where, file=wheels.get(cell.get("job"), ""), reason=cell["reason"])
