"""Compares the pages of an index, as read, with the pages that their manifests give."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ci_tools.index.directory import Root
from ci_tools.index.foreign.pages import projects_on
from ci_tools.index.foreign.strangers import Stranger, lists_files
from ci_tools.index.maintain.flaws import NOT_ON_IT, OTHERS, STALE, IndexFlaw
from ci_tools.index.pages import is_sealed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ci_tools.index.directory import Directory
    from ci_tools.index.objects.store import Found
    from ci_tools.index.page_writer import Page
    from ci_tools.index.wheel_index import WheelIndex


class PagesLook(NamedTuple):
    """The flaws of pages, and the highest generation of the existing pages."""

    flaws: tuple[IndexFlaw, ...]
    generation: int


def is_page(key: str) -> bool:
    """Return whether a key is a page's, which ends in a seal if we wrote it."""
    return not key or key.endswith("/") or key.rpartition("/")[2] in {"index.html", "index.json"}


def page_flaws(index: WheelIndex, pages: Iterable[Page]) -> PagesLook:
    """Return the flaws of project pages that are not as they should be."""
    read = [(key, page.data, index.store.read(key)) for page in pages for key in page.keys]
    flaws = (_page_flaw(*one) for one in read)
    return PagesLook(tuple(flaw for flaw in flaws if flaw), _highest(found for _, _, found in read))


def _page_flaw(key: str, data: bytes, read: tuple[bytes, Found] | None) -> IndexFlaw | None:
    if read and read[0] == data:
        return None
    is_others = read is not None and is_page(key) and not is_sealed(read[0])
    return IndexFlaw(key, OTHERS if is_others else STALE)


def front_flaws(index: WheelIndex, pages: Iterable[Page], directory: Directory) -> PagesLook:
    """Return the flaws of front pages; for pages of others, our lines that they lack."""
    if directory.root is Root.KEPT:
        return PagesLook((), 0)
    flaws, generation = [], 0
    for page in pages:
        read = {key: index.store.read(key) for key in page.keys}
        has_others = any(found and not is_sealed(found[0]) for found in read.values())
        for key, found in read.items():
            is_theirs = found is None and has_others and directory.root is Root.SHARED  # under another key
            flaws += [] if is_theirs else [_front_flaw(key, page.data, found, directory)]
        generation = max(generation, _highest(read.values()))
    return PagesLook(tuple(flaw for flaw in flaws if flaw), generation)


def _front_flaw(key: str, data: bytes, read: tuple[bytes, Found] | None, directory: Directory) -> IndexFlaw | None:
    if read is None or is_sealed(read[0]):
        return _page_flaw(key, data, read)
    try:
        there = set(projects_on(read[0], key))
        is_theirs = bool(there - directory.projects) or lists_files(Stranger(key, *read))
    except ValueError:  # not a page: our own index does not need it
        return IndexFlaw(key, OTHERS) if directory.root is Root.OWN else None
    if directory.root is Root.OWN and not is_theirs:
        return IndexFlaw(key, OTHERS)
    missing = ", ".join(sorted(directory.projects - there))
    return IndexFlaw(key, f"{NOT_ON_IT} {missing}") if missing else None


def _highest(read: Iterable[tuple[bytes, Found] | None]) -> int:
    return max((found[1].generation for found in read if found), default=0)
