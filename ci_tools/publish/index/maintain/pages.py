"""The pages of an index as they were read: those that are not what their manifests make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.publish.index.foreign_pages import projects_on
from ci_tools.publish.index.maintain.flaws import (
    NOT_ON_IT,
    OTHERS,
    STALE,
    Flaw,
)
from ci_tools.publish.index.manifest import Root
from ci_tools.publish.index.page_writer import Stranger, lists_files
from ci_tools.publish.index.pages import is_sealed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_tools.machine.objects.store import Found
    from ci_tools.publish.index.manifest import Directory
    from ci_tools.publish.index.wheel_index import Page, WheelIndex

__all__ = ["Look", "front_flaws", "is_page", "page_flaws"]


class Look(NamedTuple):
    """What is wrong with pages, and the highest generation of those that are there."""

    flaws: tuple[Flaw, ...]
    generation: int


def is_page(key: str) -> bool:
    """Return whether a key is that of a page, which ends in a seal where we wrote it."""
    return not key or key.endswith("/") or key.rpartition("/")[2] in {"index.html", "index.json"}


def page_flaws(index: WheelIndex, pages: Iterable[Page]) -> Look:
    """Return the pages of projects that are not what they should be."""
    read = [(key, page.data, index.store.read(key)) for page in pages for key in page.keys]
    flaws = (_page_flaw(*one) for one in read)
    return Look(tuple(flaw for flaw in flaws if flaw), _highest(found for _, _, found in read))


def _page_flaw(key: str, data: bytes, read: tuple[bytes, Found] | None) -> Flaw | None:
    if read and read[0] == data:
        return None
    is_others = read is not None and is_page(key) and not is_sealed(read[0])
    return Flaw(key, OTHERS if is_others else STALE)


def front_flaws(index: WheelIndex, pages: Iterable[Page], directory: Directory) -> Look:
    """Return the front pages that are not what they should be; of those that others write, what of ours they lack."""
    if directory.root is Root.KEPT:
        return Look((), 0)
    flaws, generation = [], 0
    for page in pages:
        read = {key: index.store.read(key) for key in page.keys}
        has_others = any(found and not is_sealed(found[0]) for found in read.values())
        for key, found in read.items():
            is_theirs = found is None and has_others and directory.root is Root.SHARED  # to put under another key
            flaws += [] if is_theirs else [_front_flaw(key, page.data, found, directory)]
        generation = max(generation, _highest(read.values()))
    return Look(tuple(flaw for flaw in flaws if flaw), generation)


def _front_flaw(key: str, data: bytes, read: tuple[bytes, Found] | None, directory: Directory) -> Flaw | None:
    if read is None or is_sealed(read[0]):
        return _page_flaw(key, data, read)
    try:
        there = set(projects_on(read[0], key))
        is_theirs = bool(there - directory.projects) or lists_files(Stranger(key, *read))
    except ValueError:  # it is no page: in an index of ours, nobody needs it
        return Flaw(key, OTHERS) if directory.root is Root.OWN else None
    if directory.root is Root.OWN and not is_theirs:
        return Flaw(key, OTHERS)
    missing = ", ".join(sorted(directory.projects - there))
    return Flaw(key, f"{NOT_ON_IT} {missing}") if missing else None


def _highest(read: Iterable[tuple[bytes, Found] | None]) -> int:
    return max((found[1].generation for found in read if found), default=0)
