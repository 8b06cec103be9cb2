"""Finds the torch nightly that a config asks for among what upstream has published, and writes its row.

An index of nightlies has builds of the last weeks, and those of the newest day arrive one by one. So the newest one is
taken that has a build for everything the config asks for, and the config's own date if it names one.
"""

from __future__ import annotations

import re
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.config.torch_axis import NEWEST
from ci_tools.config.upstream.torch_listing import Facts, TorchBuild, choose_headers, gather_facts, read_nightly
from ci_tools.config.upstream.torch_names import read_new_names
from ci_tools.errors import InputError
from ci_tools.machine.package_index import Index, Listing, listing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from ci_tools.catalog import Catalog
    from ci_tools.model.platforms import Accelerator
    from ci_tools.model.request import Request
    from ci_tools.model.versions import Minor

TORCH = "torch"
ROW, PART = re.compile(r"\s*\[\[\s*torch\.nightly\s*\]\]"), re.compile(r"\s*\[\s*torch\.nightly\.")
HEADER = re.compile(r"\s*\[")
VERSION = re.compile(r"""\s*version\s*=\s*["']([^"']+)["']""")
PAGE = "how-to/use-a-new-torch.md#take-a-nightly"


class Nightly(NamedTuple):
    """A torch nightly, and its row in the words of the catalog."""

    version: Minor
    facts: Facts

    @property
    def row(self) -> Facts:
        """The whole row."""
        return {"version": str(self.version), **self.facts}


class _NightlyIndex(NamedTuple):
    """An index, what it lists, and the builds of nightlies in it."""

    url: str
    listing: Listing
    builds: tuple[TorchBuild, ...]


def find_nightly(
    request: Request, catalog: Catalog, indexes: Sequence[Index], say: Callable[[str], None]
) -> Nightly | None:
    """Return the nightly that a request asks for, as the indexes have it; None if it asks for none.

    Raises InputError if no index is named, or none of them has it; MachineError if one does not answer.
    """
    asked = request.torch.nightly if request.torch else None
    if asked is None:
        return None
    if not indexes:
        msg = f"{request.config} asks for a nightly of torch, and no index of nightlies is named"
        raise InputError(msg, hint="--index URL names it", page=PAGE)
    with ExitStack() as stack:
        places = [_read(index, stack) for index in indexes]
        found: dict[Minor, list[TorchBuild]] = {}
        for build in (build for place in places for build in place.builds):
            found.setdefault(build.minor, []).append(build)
        fitting = {version: builds for version, builds in found.items() if asked in {NEWEST, version.nightly}}
        if not fitting:
            raise _explain_absence(asked, found, indexes)
        chosen = _choose(fitting, request, catalog, say)
        facts = _describe(fitting[chosen], places)
        return Nightly(chosen, {**facts, **_read_names(fitting[chosen], places, say)})


def _read(index: Index, stack: ExitStack) -> _NightlyIndex:
    listing = stack.enter_context(listing_of(TORCH, index))
    names = (file.filename for file in listing.files if not file.is_yanked)
    return _NightlyIndex(index.url, listing, tuple(filter(None, map(read_nightly, names))))


def _explain_absence(asked: str, found: Iterable[Minor], indexes: Iterable[Index]) -> InputError:
    dates = sorted({version.nightly for version in found})
    there = f"there are those of {dates[0]} to {dates[-1]}" if dates else "there is none at all"
    which = "" if asked == NEWEST else f" of {asked}"
    where = " and ".join(index.url for index in indexes)
    return InputError(f"{where}: no nightly of torch{which}; {there}", page=PAGE)


def _choose(
    found: Mapping[Minor, Sequence[TorchBuild]], request: Request, catalog: Catalog, say: Callable[[str], None]
) -> Minor:
    """Return the newest nightly with a build for everything that is asked for, else the newest; say what it lacks."""
    wanted = set(_list_wanted(request, catalog))
    lacking = {version: sorted(wanted - set(_list_served(found[version]))) for version in sorted(found, reverse=True)}
    newest = next(iter(lacking))
    chosen = next((version for version, lacks in lacking.items() if not lacks), newest)
    if lacking[newest]:
        instead = f"{chosen} is taken" if chosen != newest else "no older one has all that is asked for"
        say(f"torch {newest} has no build for {', '.join(lacking[newest])}: {instead}")
    return chosen


def _list_wanted(request: Request, catalog: Catalog) -> Iterator[str]:
    for platform in request.platforms:
        for accelerator in platform.accelerators or (None,):
            yield _name(catalog.platforms[platform.platform].host, accelerator)


def _name(host: str, accelerator: Accelerator | None) -> str:
    is_listed = accelerator and (accelerator.version or not accelerator.kind.is_versioned)
    return f"{accelerator.label} on {host}" if accelerator and is_listed else host


def _list_served(builds: Iterable[TorchBuild]) -> Iterator[str]:
    for build in builds:
        labels = (build.cuda and f"cu{build.cuda.digits}", build.rocm and f"rocm{build.rocm}", build.xpu and "xpu")
        yield from (build.host, *(f"{label} on {build.host}" for label in labels if label))


def _describe(builds: Sequence[TorchBuild], places: Iterable[_NightlyIndex]) -> Facts:
    """Return the row of a nightly: its indexes, what it is for, and the wheel with its headers if one has a hash."""
    having = [(place, [build for build in place.builds if build in builds]) for place in places]
    having = [(place, own) for place, own in having if own]
    facts: Facts = {"indexes": [place.url for place, _ in having], **gather_facts(builds)}
    for place, own in having:
        files = {file.filename: file for file in place.listing.files}
        if headers := choose_headers(own, files, place.listing):
            # They are fetched from the first index: the one that has them.
            others = [url for url in facts["indexes"] if url != place.url]
            return {**facts, "indexes": [place.url, *others], "headers": headers}
    return facts


def _read_names(builds: Sequence[TorchBuild], places: Iterable[_NightlyIndex], say: Callable[[str], None]) -> Facts:
    """Return the names of a nightly, read from its wheel for Linux, or for any system without such a one."""
    for build in sorted(builds, key=lambda build: (build.host != "linux-x86_64", build.file)):  # False sorts first
        for place in places:
            files = {file.filename: file for file in place.listing.files}
            if build.file in files:
                return {**read_new_names(files[build.file], place.listing, say)}
    return {}


def drop_rows(text: str, versions: Iterable[Minor]) -> str:
    """Return the text of a catalog's file without the rows of these nightlies; all other lines stay as they are."""
    dropped = set(map(str, versions))
    kept: list[str] = []  # lines, each with its end
    row: list[str] | None = None
    for line in [*text.splitlines(keepends=True), "["]:  # a last header ends the last row
        if row is not None and HEADER.match(line) and not PART.match(line):
            kept += _keep_row(row, dropped)
            row = None
        if ROW.match(line):
            row = []
        (kept if row is None else row).append(line)
    return "".join(kept[:-1])


def _keep_row(row: list[str], dropped: set[str]) -> list[str]:
    """Return the lines of a row, or of one that is dropped the comments below it, which are about the next."""
    named = next((found[1] for line in row if (found := VERSION.match(line))), "")
    if named not in dropped:
        return row
    below = len(row)
    while row[below - 1].lstrip()[:1] in {"", "#"}:
        below -= 1
    return [line for line in row[below:] if line.strip()]
