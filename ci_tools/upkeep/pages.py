"""The pages of an index as they were read: those that are not what their manifests make them, and what they list."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from packaging.utils import canonicalize_name

from ci_tools.index import is_sealed
from ci_tools.manifest import Root
from ci_tools.upkeep.flaws import NOT_ON_IT, OTHERS, STALE, Flaw

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.manifest import Directory
    from ci_tools.targets.store import Found
    from ci_tools.targets.wheelindex import Page, WheelIndex

__all__ = ["Look", "Row", "front_flaws", "is_page", "listed_projects", "listed_rows", "page_flaws"]

SHA256 = "sha256="


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
    """Return the front pages that are not what they should be; in a root that we share, those of others list ours."""
    if directory.root is Root.OWN:
        return page_flaws(index, pages)
    read = [(key, page.data, index.store.read(key)) for page in pages for key in page.keys]
    flaws = (_shared_flaw(*one, directory) for one in read)
    return Look(tuple(flaw for flaw in flaws if flaw), _highest(found for _, _, found in read))


def _shared_flaw(key: str, data: bytes, read: tuple[bytes, Found] | None, directory: Directory) -> Flaw | None:
    """Return what is wrong with a front page that may be others'; whether one of ours is missing is theirs to say."""
    if read is None or (is_page(key) and is_sealed(read[0])):
        is_ours = read is not None or directory.root is Root.SHARED
        return _page_flaw(key, data, read) if is_ours and not (read is None and key.endswith(".json")) else None
    is_ours_too = directory.root is Root.SHARED and not key.endswith(".json")  # what no line can be added to
    missing = directory.projects - listed_projects(read[0]) if is_ours_too else frozenset()
    return Flaw(key, f"{NOT_ON_IT} {', '.join(sorted(missing))}") if missing else None


def _highest(read: Iterable[tuple[bytes, Found] | None]) -> int:
    return max((found[1].generation for found in read if found), default=0)


# ---------------------------------------------------------------- what they list


class Row(NamedTuple):
    """A file as a project's page lists it."""

    name: str
    url: str  # as it is written, without the hash
    sha256: str = ""
    size: int = 0  # bytes; 0 where the page does not say
    uploaded: str = ""
    requires_python: str = ""
    metadata_sha256: str = ""
    yanked: str | None = None


class _Anchors(HTMLParser):
    """The links of a page, each with its attributes and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[dict[str, str | None], str]] = []
        self._open: dict[str, str | None] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a link."""
        if tag == "a":
            self._open = dict(attrs)
            self.found.append((self._open, ""))

    def handle_data(self, data: str) -> None:
        """Take the text of a link."""
        if self._open is not None:
            self.found[-1] = (self._open, self.found[-1][1] + data)

    def handle_endtag(self, tag: str) -> None:
        """End a link."""
        if tag == "a":
            self._open = None


def _anchors(page: bytes) -> list[tuple[dict[str, str | None], str]]:
    parser = _Anchors()
    parser.feed(page.decode("utf-8", "replace"))
    return parser.found


def listed_projects(page: bytes) -> frozenset[str]:
    """Return the projects that a front page lists, whoever wrote it: HTML (PEP 503), or JSON (PEP 691)."""
    if page.lstrip().startswith(b"{"):
        return frozenset(canonicalize_name(str(name)) for name in _names(page))
    hrefs = (attributes.get("href") or "" for attributes, _ in _anchors(page))
    places = (unquote(href.partition("#")[0]).removesuffix("index.html").rstrip("/") for href in hrefs)
    return frozenset(canonicalize_name(place.rpartition("/")[2]) for place in places)


def _names(page: bytes) -> Iterator[object]:
    try:
        projects = json.loads(page)["projects"]
        yield from (project["name"] for project in projects)
    except (ValueError, KeyError, TypeError, RecursionError):
        return


def listed_rows(page: bytes) -> tuple[Row, ...]:
    """Return what a page of ours lists; raise ValueError where it is none."""
    if not is_sealed(page):
        msg = "the page is not one that we wrote, every byte of it"
        raise ValueError(msg)
    if page.startswith(b"{"):
        return tuple(_row_of_json(entry) for entry in json.loads(page)["files"])
    return tuple(_row_of_anchor(attributes, text) for attributes, text in _anchors(page))


def _row_of_json(entry: dict[str, Any]) -> Row:
    yanked = entry.get("yanked", False)
    return Row(
        name=entry["filename"],
        url=entry["url"],
        sha256=entry["hashes"].get("sha256", ""),
        size=entry.get("size", 0),
        uploaded=entry.get("upload-time", ""),
        requires_python=entry.get("requires-python", ""),
        metadata_sha256=(entry.get("core-metadata") or {}).get("sha256", ""),
        yanked=None if yanked is False else "" if yanked is True else yanked,
    )


def _row_of_anchor(attributes: dict[str, str | None], text: str) -> Row:
    url, _, fragment = (attributes.get("href") or "").partition("#")
    return Row(
        name=text,
        url=url,
        sha256=fragment.removeprefix(SHA256),
        requires_python=attributes.get("data-requires-python") or "",
        metadata_sha256=(attributes.get("data-core-metadata") or "").removeprefix(SHA256),
        yanked=attributes["data-yanked"] or "" if "data-yanked" in attributes else None,
    )
