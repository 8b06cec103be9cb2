"""Lists the differences between two sources and their configs, each with a function that makes only that change."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.evidence import CellEvidence, Evidence, PlatformEvidence
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Platform
from ci_tools.model.request import CatalogRow, PlatformRequest, Request

if TYPE_CHECKING:
    Make = Callable[[Request, Evidence], tuple[Request, Evidence]]

PLACE = re.compile(r"(?P<place>[^\s():][^():]*:\d+)(?=[:,)\s]|$)")  # a file and a line
# Fields of a platform request that the general comparison skips: accelerators and archs have their own sentences.
TOLD_APART = frozenset({"platform", "where", "accelerators", "archs"})
RAN = re.compile(r"observed by running (?P<place>[^\s:]+)")  # an observed build has no line: its setup.py is the place


class Side(NamedTuple):
    """A plan, with the known facts about its inputs and its built wheels."""

    plan: Plan
    evidence: Evidence | None = None
    lines: Mapping[str, str] = {}  # key → its place in the config, file:line
    sizes: Mapping[str, int] = {}  # job → known bytes of its wheel


class PlaceChange(NamedTuple):
    """A change to one place, and a function that makes it in the request or in the evidence."""

    where: str
    what: str  # for the config: the new request, in words
    asked: bool
    make: Make
    gone: bool = False


def place_in(text: str, *, anywhere: bool = False) -> str:
    """Return the place at the start of an evidence text, or with `anywhere` the first place in it; "" without one."""
    found = (PLACE.search(text) if anywhere else PLACE.match(text)) or RAN.search(text)
    return found["place"] if found else ""


def is_in(text: str, other: str) -> bool:
    """Whether a text is part of another one, apart from line numbers."""
    return strip_line_numbers(text) in strip_line_numbers(other)


def strip_line_numbers(text: str) -> str:
    """Return a text without line numbers."""
    return re.sub(r":\d+", ":", text)


# ---------------------------------------------------------------- changes of the evidence


def shown(old: Evidence, new: Evidence, before: Side, after: Side) -> Iterator[PlaceChange]:
    """Yield the changes of the evidence; parts that are read in one place are one change."""
    first: dict[_Part, tuple[str, bool]] = {}
    for where, gone, part in _differences(old, new, before, after):
        first.setdefault(part, (where, gone))  # one place for each part, though many cells have it
    found: dict[tuple[str, bool], list[_Part]] = {}
    for part, place in first.items():
        found.setdefault(place, []).append(part)
    for (where, gone), parts in found.items():
        yield PlaceChange(where, "", False, _taking(new, parts), gone)  # noqa: FBT003 - see Change


class _Part(NamedTuple):
    """A part of the evidence: of a platform, or of the whole project."""

    platform: Platform | None
    name: str


def _taking(later: Evidence, parts: Sequence[_Part]) -> Make:
    """Return a function that takes some parts of the evidence from the later one."""
    whole = {part.name: getattr(later, part.name) for part in parts if part.platform is None}
    found = {one.platform: one for one in later.platforms}

    def made(request: Request, evidence: Evidence) -> tuple[Request, Evidence]:
        platforms = []
        for one in evidence.platforms:
            names = {part.name for part in parts if part.platform is one.platform}
            platforms.append(_mix_platforms(one, found[one.platform], names) if names else one)
        return request, replace(evidence, platforms=tuple(platforms), **whole)

    return made


def _mix_platforms(earlier: PlatformEvidence, later: PlatformEvidence, names: set[str]) -> PlatformEvidence:
    """Return a platform's earlier evidence, with the named parts from the later one."""

    @functools.cache  # equal evidence stays the same object
    def of(was: CellEvidence, now: CellEvidence) -> CellEvidence:
        return _mix_cells(was, now, names)

    return PlatformEvidence(
        platform=earlier.platform,
        native_files=later.native_files if "native_files" in names else earlier.native_files,
        shown=of(earlier.shown, later.shown),
        # A cell that only one side tells apart has its platform's evidence on the other.
        apart={cell: of(earlier.of(cell), later.of(cell)) for cell in {**later.apart, **earlier.apart}},
    )


def _mix_cells(was: CellEvidence, now: CellEvidence, names: set[str]) -> CellEvidence:
    return replace(
        now if "compiled" in names else was,
        python_api=(now if "python_api" in names else was).python_api,
        torch_abi=(now if "torch_abi" in names else was).torch_abi,
    )


def _differences(old: Evidence, new: Evidence, before: Side, after: Side) -> Iterator[tuple[str, bool, _Part]]:
    """Yield every part of the evidence that differs, with its place, and whether that place is gone."""
    if old.project.requires_python != new.project.requires_python:
        yield new.project.where, False, _Part(None, "project")
    if old.requires_torch.specifier != new.requires_torch.specifier:
        where = new.requires_torch.where or old.requires_torch.where
        yield where, not new.requires_torch.where, _Part(None, "requires_torch")
    earlier = {found.platform: found for found in old.platforms}
    for found in new.platforms:
        if found.platform in earlier:
            asked = _globs(before.plan.request, found.platform) != _globs(after.plan.request, found.platform)
            places = {one.platform: one.where for one in after.plan.request.platforms}
            line = places[found.platform] if asked else ""
            yield from _diff_platform(earlier[found.platform], found, line)


def _diff_platform(old: PlatformEvidence, new: PlatformEvidence, line: str) -> Iterator[tuple[str, bool, _Part]]:
    """Yield the differences in a platform's evidence; `line` is the place in the config if its globs changed."""
    if bool(old.native_files) != bool(new.native_files):  # a plan asks only whether there are any
        file, *_ = new.native_files or old.native_files
        yield line or file, not new.native_files and not line, _Part(new.platform, "native_files")
    for cell in (None, *{**new.apart, **old.apart}):
        pair = (old.of(cell), new.of(cell)) if cell else (old.shown, new.shown)
        for name, was, now in _diff_cell(*pair):
            yield (*_place(was, now), _Part(new.platform, name))


def _diff_cell(old: CellEvidence, new: CellEvidence) -> Iterator[tuple[str, str, str]]:
    """Yield the parts of a cell's evidence that differ, with the old and the new place."""
    if old.python_api._replace(where="") != new.python_api._replace(where=""):
        yield "python_api", old.python_api.where, new.python_api.where
    if old.torch_abi._replace(where="") != new.torch_abi._replace(where=""):
        yield "torch_abi", old.torch_abi.where, new.torch_abi.where
    if _strip_abis(old) != _strip_abis(new):
        yield "compiled", old.unsupported or old.extensions_where, new.unsupported or new.extensions_where


def _strip_abis(shown: CellEvidence) -> CellEvidence:
    """Return a cell's evidence without its ABIs and places, for comparison."""
    nothing = {"extensions_where": "", "switches_where": "", "warnings": (), "asked": (), "off": ()}
    return replace(shown, python_api=None, torch_abi=None, **nothing)  # type: ignore[arg-type]  # to compare


def _place(was: str, now: str) -> tuple[str, bool]:
    """Return the place of a change, and whether it is gone: then the new statement was there before as well."""
    told = ((now, was, False), (was, now, True))  # new places count before those that are gone
    fresh = [(place, gone) for text, other, gone in told if (place := place_in(text)) and not is_in(text, other)]
    return next(iter(fresh), (place_in(now) or place_in(was) or now, False))


def _globs(request: Request, platform: Platform) -> object:
    return next((asked.native for asked in request.platforms if asked.platform is platform), None)


# ---------------------------------------------------------------- changes of the config


def asked(before: Side, after: Side) -> Iterator[PlaceChange]:
    """Yield the changes of the config, one key after the other."""
    old, new = before.plan.request, after.plan.request
    added, dropped = _minus(new.catalog, old.catalog), _minus(old.catalog, new.catalog)
    if added:  # before anything that they name
        what = f"adds {_name_rows(added)} to the catalog"
        both = (*old.catalog, *added)
        yield _change(after, "", what, lambda one: replace(one, catalog=both))._replace(where=added[0].where)
    if old.pythons != new.pythons:
        what = _describe_list_change("Python", old.pythons, new.pythons)
        yield _change(after, "python", what, lambda one: replace(one, pythons=new.pythons))
    if old.torch != new.torch:
        what = _torch_words(old, new)
        yield _change(after, "torch", what, lambda one: replace(one, torch=new.torch))
    yield from _diff_platform_requests(old, new, after)
    if dropped:
        what = f"drops {_name_rows(dropped)} from the catalog"
        made = _change(after, "", what, lambda one: replace(one, catalog=new.catalog))
        yield made._replace(where=dropped[0].where, gone=True)


def _minus(rows: Sequence[CatalogRow], others: Sequence[CatalogRow]) -> list[CatalogRow]:
    """Return the rows that say what none of the others does, wherever they are written."""
    known = {row._replace(where="") for row in others}
    return [row for row in rows if row._replace(where="") not in known]


def _name_rows(rows: Iterable[CatalogRow]) -> str:
    return ", ".join(dict.fromkeys(row.title for row in rows))


def _torch_words(old: Request, new: Request) -> str:
    if new.torch is None or old.torch is None:
        return "asks for torch" if new.torch else "asks for no torch"
    if new.torch.lowest and new.torch.lowest != old.torch.lowest:
        return f"asks for torch from {new.torch.lowest} up"
    return _describe_list_change("torch", old.torch.versions, new.torch.versions)


def _diff_platform_requests(old: Request, new: Request, after: Side) -> Iterator[PlaceChange]:
    """Yield the platforms that are new, gone, or requested differently."""
    earlier = {asked.platform: asked for asked in old.platforms}
    later = {asked.platform: asked for asked in new.platforms}
    for platform, asked in later.items():
        was = earlier.get(platform)
        what = "; ".join(_wishes(was, asked)) if was else f"adds {platform}"
        if what:
            yield PlaceChange(asked.where, what, asked=True, make=_asking(asked, after.evidence))
    for platform in earlier:
        if platform not in later:
            yield PlaceChange(_line(after, "platforms"), f"drops {platform}", asked=True, make=_dropping(platform))


def _wishes(was: PlatformRequest, now: PlatformRequest) -> Iterator[str]:
    """Yield the changes of a platform's request, in words."""
    name = str(now.platform)
    if was.accelerators != now.accelerators:
        labels = ([one.label for one in asked.accelerators] for asked in (was, now))
        yield f"{_describe_list_change('', *labels)} for {name}"
    if was.archs != now.archs:
        yield f"{_describe_list_change('', was.archs, now.archs)} for {name}"
    names = [field.name for field in fields(now) if field.name not in TOLD_APART]
    changed = [field.replace("_", "-") for field in names if getattr(was, field) != getattr(now, field)]
    if changed:
        yield f"changes {', '.join(changed)} of {name}"


def _asking(asked: PlatformRequest, later: Evidence | None) -> Make:
    """Return a function that requests a platform as the later request does, with the later evidence for it."""
    found = [one for one in (later.platforms if later else ()) if one.platform is asked.platform]

    def made(request: Request, evidence: Evidence) -> tuple[Request, Evidence]:
        names = [one.platform for one in request.platforms]
        known = asked.platform in names
        platforms = [asked if one.platform is asked.platform else one for one in request.platforms]
        rest = (one for one in evidence.platforms if one.platform is not asked.platform or not found)
        return (
            replace(request, platforms=tuple(platforms if known else [*platforms, asked])),
            replace(evidence, platforms=(*rest, *found)),
        )

    return made


def _dropping(platform: Platform) -> Make:
    """Return a function that drops a platform from the request."""

    def made(request: Request, evidence: Evidence) -> tuple[Request, Evidence]:
        platforms = tuple(one for one in request.platforms if one.platform is not platform)
        return replace(request, platforms=platforms), evidence

    return made


def _change(after: Side, key: str, what: str, make: Callable[[Request], Request]) -> PlaceChange:
    """Return a change of one key of the config; the cells that it adds get the later evidence."""

    def made(request: Request, evidence: Evidence) -> tuple[Request, Evidence]:
        later = {found.platform: found for found in after.evidence.platforms} if after.evidence else {}
        platforms = tuple(later.get(found.platform, found) for found in evidence.platforms)
        return make(request), replace(evidence, platforms=platforms)

    return PlaceChange(_line(after, key), what, asked=True, make=made)


def _line(side: Side, key: str) -> str:
    """Return the place of a key in the config, or only the file if the line is not known."""
    return side.lines.get(key) or side.plan.request.config


def _describe_list_change(what: str, old: Iterable[object], new: Iterable[object]) -> str:
    """Return in words the items that a list gained and lost."""
    was, now = list(map(str, old)), list(map(str, new))  # Pythons, labels and architectures alike
    more, less = [one for one in now if one not in was], [one for one in was if one not in now]
    parts = [f"{verb} {what} {', '.join(ones)}" for verb, ones in (("adds", more), ("drops", less)) if ones]
    return re.sub(r" +", " ", " and ".join(parts)) or f"reorders {what or 'them'}"
