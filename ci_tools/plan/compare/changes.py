"""What differs between two sources and their configs, place by place, each with how to make that change alone."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.model.evidence import PlatformEvidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ci_tools.model.evidence import CellEvidence, Evidence
    from ci_tools.model.plan import Plan
    from ci_tools.model.platforms import Platform
    from ci_tools.model.request import PlatformRequest, Request

    Make = Callable[[Request, Evidence], tuple[Request, Evidence]]

__all__ = ["Change", "Side", "asked", "is_in", "place_in", "shown", "strip_line_numbers"]

PLACE = re.compile(r"(?P<place>[^\s():][^():]*:\d+)(?=[:,)\s]|$)")  # a file and a line
TOLD_APART = frozenset({"platform", "where", "accelerators", "archs"})  # of what a platform is asked for
RAN = re.compile(r"observed by running (?P<place>[^\s:]+)")


class Side(NamedTuple):
    """A plan, and what is known besides of how it came about and of what was built by it."""

    plan: Plan
    evidence: Evidence | None = None
    lines: Mapping[str, str] = {}  # where the config has its keys, file:line
    sizes: Mapping[str, int] = {}  # bytes of the wheels that are known, by job


class Change(NamedTuple):
    """A change to one place, and how to make it: on the request, or in the evidence."""

    where: str
    what: str  # for the config: what it asks for now
    asked: bool
    make: Make
    gone: bool = False


def place_in(text: str, *, anywhere: bool = False) -> str:
    """Return the place that a text of the evidence starts with, or names anywhere; nothing where it names none."""
    found = (PLACE.search(text) if anywhere else PLACE.match(text)) or RAN.search(text)
    return found["place"] if found else ""


def is_in(text: str, other: str) -> bool:
    """Whether a text is a part of another one, maybe with other lines."""
    return strip_line_numbers(text) in strip_line_numbers(other)


def strip_line_numbers(text: str) -> str:
    """Return a text without the numbers of its lines."""
    return re.sub(r":\d+", ":", text)


# ---------------------------------------------------------------- what the source shows


def shown(old: Evidence, new: Evidence, before: Side, after: Side) -> Iterator[Change]:
    """Yield the changes of the evidence, all that is read in one place together."""
    first: dict[_Part, tuple[str, bool]] = {}
    for where, gone, part in _differences(old, new, before, after):
        first.setdefault(part, (where, gone))
    found: dict[tuple[str, bool], list[_Part]] = {}
    for part, place in first.items():
        found.setdefault(place, []).append(part)
    for (where, gone), parts in found.items():
        yield Change(where, "", False, _taking(new, parts), gone)  # noqa: FBT003 - see Change


class _Part(NamedTuple):
    """A part of the evidence: of a platform, or of the whole project."""

    platform: Platform | None
    name: str


def _taking(later: Evidence, parts: Sequence[_Part]) -> Make:
    """Return what takes some parts of the evidence from the later one."""
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
    """Return what is shown of a platform, with the named parts of what is shown of it later."""
    made: dict[tuple[int, int], CellEvidence] = {}  # what was the same of several cells still is

    def of(was: CellEvidence, now: CellEvidence) -> CellEvidence:
        return made.setdefault((id(was), id(now)), _mix_cells(was, now, names))

    return PlatformEvidence(
        platform=earlier.platform,
        native_files=later.native_files if "native_files" in names else earlier.native_files,
        shown=of(earlier.shown, later.shown),
        apart={cell: of(earlier.of(cell), later.of(cell)) for cell in {**later.apart, **earlier.apart}},
    )


def _mix_cells(was: CellEvidence, now: CellEvidence, names: set[str]) -> CellEvidence:
    return replace(
        now if "compiled" in names else was,
        python_api=(now if "python_api" in names else was).python_api,
        torch_abi=(now if "torch_abi" in names else was).torch_abi,
    )


def _differences(old: Evidence, new: Evidence, before: Side, after: Side) -> Iterator[tuple[str, bool, _Part]]:
    """Yield every part of the evidence that says something else, with the place, and whether that is gone."""
    if old.project.requires_python != new.project.requires_python:
        yield new.project.where, False, _Part(None, "project")
    if old.requires_torch.specifier != new.requires_torch.specifier:
        where = new.requires_torch.where or old.requires_torch.where
        yield where, not new.requires_torch.where, _Part(None, "requires_torch")
    earlier = {found.platform: found for found in old.platforms}
    for found in new.platforms:
        if found.platform in earlier:
            asked = _globs(before.plan.request, found.platform) != _globs(after.plan.request, found.platform)
            line = _line_of(after.plan.request, found.platform) if asked else ""
            yield from _diff_platform(earlier[found.platform], found, line)


def _diff_platform(old: PlatformEvidence, new: PlatformEvidence, line: str) -> Iterator[tuple[str, bool, _Part]]:
    """Yield what a platform shows otherwise; `line` is the config's where that looks for native code elsewhere."""
    if bool(old.native_files) != bool(new.native_files):
        file, *_ = new.native_files or old.native_files
        yield line or file, not new.native_files and not line, _Part(new.platform, "native_files")
    for cell in (None, *{**new.apart, **old.apart}):
        pair = (old.of(cell), new.of(cell)) if cell else (old.shown, new.shown)
        for name, was, now in _diff_cell(*pair):
            yield (*_place(was, now), _Part(new.platform, name))


def _diff_cell(old: CellEvidence, new: CellEvidence) -> Iterator[tuple[str, str, str]]:
    """Yield the parts of what is shown of a cell that differ, and where each was and is read."""
    if old.python_api._replace(where="") != new.python_api._replace(where=""):
        yield "python_api", old.python_api.where, new.python_api.where
    if old.torch_abi._replace(where="") != new.torch_abi._replace(where=""):
        yield "torch_abi", old.torch_abi.where, new.torch_abi.where
    if _strip_abis(old) != _strip_abis(new):
        yield "compiled", old.unsupported or old.extensions_where, new.unsupported or new.extensions_where


def _strip_abis(shown: CellEvidence) -> CellEvidence:
    """Return what is shown of a cell without its ABIs, and without where it was read."""
    nothing = {"extensions_where": "", "switches_where": "", "warnings": (), "asked": ()}
    return replace(shown, python_api=None, torch_abi=None, **nothing)  # type: ignore[arg-type]  # to compare


def _place(was: str, now: str) -> tuple[str, bool]:
    """Return the place that a change was read in, and whether it is gone: what is said now was said before as well."""
    told = ((now, was, False), (was, now, True))
    fresh = [(place, gone) for text, other, gone in told if (place := place_in(text)) and not is_in(text, other)]
    return next(iter(fresh), (place_in(now) or place_in(was) or now, False))


def _globs(request: Request, platform: Platform) -> object:
    return next((asked.native for asked in request.platforms if asked.platform is platform), None)


# ---------------------------------------------------------------- what the config asks for


def asked(before: Side, after: Side) -> Iterator[Change]:
    """Yield what the config asks for otherwise, one key after the other."""
    old, new = before.plan.request, after.plan.request
    if old.pythons != new.pythons:
        what = _describe_list_change("Python", old.pythons, new.pythons)
        yield _change(after, "python", what, lambda one: replace(one, pythons=new.pythons))
    if old.torch != new.torch:
        what = _torch_words(old, new)
        yield _change(after, "torch", what, lambda one: replace(one, torch=new.torch))
    yield from _diff_platform_requests(old, new, after)


def _torch_words(old: Request, new: Request) -> str:
    if new.torch is None or old.torch is None:
        return "asks for torch" if new.torch else "asks for no torch"
    if new.torch.lowest and new.torch.lowest != old.torch.lowest:
        return f"asks for torch from {new.torch.lowest} up"
    return _describe_list_change("torch", old.torch.versions, new.torch.versions)


def _diff_platform_requests(old: Request, new: Request, after: Side) -> Iterator[Change]:
    """Yield the platforms that are new, gone, or asked for otherwise."""
    earlier = {asked.platform: asked for asked in old.platforms}
    later = {asked.platform: asked for asked in new.platforms}
    for platform, asked in later.items():
        was = earlier.get(platform)
        what = "; ".join(_wishes(was, asked)) if was else f"adds {platform}"
        if what:
            yield Change(asked.where, what, asked=True, make=_asking(asked, after.evidence))
    for platform in earlier:
        if platform not in later:
            yield Change(_line(after, "platforms"), f"drops {platform}", asked=True, make=_dropping(platform))


def _wishes(was: PlatformRequest, now: PlatformRequest) -> Iterator[str]:
    """Yield what a platform is asked for otherwise."""
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
    """Return what asks for a platform as the later request does, whose evidence says what is shown of it."""
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
    """Return what asks for a platform no more."""

    def made(request: Request, evidence: Evidence) -> tuple[Request, Evidence]:
        platforms = tuple(one for one in request.platforms if one.platform is not platform)
        return replace(request, platforms=platforms), evidence

    return made


def _change(after: Side, key: str, what: str, make: Callable[[Request], Request]) -> Change:
    """Return a change of one key of the config: what is shown of the cells it adds is that of the later evidence."""

    def made(request: Request, evidence: Evidence) -> tuple[Request, Evidence]:
        later = {found.platform: found for found in after.evidence.platforms} if after.evidence else {}
        platforms = tuple(later.get(found.platform, found) for found in evidence.platforms)
        return make(request), replace(evidence, platforms=platforms)

    return Change(_line(after, key), what, asked=True, make=made)


def _line(side: Side, key: str) -> str:
    """Return where the config has a key, its file alone where that is not known."""
    return side.lines.get(key) or side.plan.request.config


def _line_of(request: Request, platform: Platform) -> str:
    """Return where the config has a platform that it asks for."""
    return next(asked.where for asked in request.platforms if asked.platform is platform)


def _describe_list_change(what: str, old: Iterable[object], new: Iterable[object]) -> str:
    """Say what a list has more, and what it has no more."""
    was, now = list(map(str, old)), list(map(str, new))
    more, less = [one for one in now if one not in was], [one for one in was if one not in now]
    parts = [f"{verb} {what} {', '.join(ones)}" for verb, ones in (("adds", more), ("drops", less)) if ones]
    return re.sub(r" +", " ", " and ".join(parts)) or f"orders {what or 'them'} anew"
