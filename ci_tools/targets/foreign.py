"""Pages of an index that others wrote: what a project's page lists, and a line of ours on a page of projects.

A page is read as installers read it, which go by the addresses of its links and not by their texts.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from packaging.utils import canonicalize_name
from pypi_simple import RepositoryPage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pypi_simple import Link

__all__ = ["Listed", "listed_on", "projects_on", "with_projects"]

# The root of an index as an address so deep that a link which leads out of it can be told from one that does not.
ROOT_PATH = "/-/-/-/-/-/-/-/-/root/"
HERE = f"http://fatwheel.invalid{ROOT_PATH}"
INDEX_JSON = "index.json"
SHA256 = re.compile(r"[0-9a-f]{64}")
METADATA = ("data-core-metadata", "data-dist-info-metadata")  # PEP 714, and PEP 658 before it
# A line with one link and no other.
ONE_LINK = re.compile(
    rb"^(?P<before>(?:(?!<a\b)[^\n])*)<a\b(?:(?!</a>)[^\n])*</a>(?P<after>(?:(?!<a\b)[^\n])*(?:\n|\Z))",
    re.IGNORECASE | re.MULTILINE,
)
END_OF_BODY = re.compile(rb"[ \t]*</(body|html)\s*>", re.IGNORECASE)
LIST_OF_PROJECTS = re.compile(r'"projects"\s*:\s*(?=\[)')


class Listed(NamedTuple):
    """One link of a project's page: where it leads, and what the page says of what is there."""

    name: str  # of the file
    at: str  # a key below the root, `../…` or `/…` where it leads out of that, or a URL
    sha256: str = ""
    size: int = 0  # bytes; 0 where the page does not say
    uploaded: str = ""  # RFC 3339
    requires_python: str = ""
    metadata_sha256: str = ""
    yanked: str | None = None


def listed_on(page: bytes, key: str) -> tuple[Listed, ...]:
    """Return what the page of a project at `key` lists; raise ValueError where it is no page."""
    if key.endswith(INDEX_JSON):
        return tuple(_of_json(entry, key) for entry in _document(page, "files"))
    found = (_of_html(link) for link in _links(page, key))
    return tuple(one for one in found if one.name)


def projects_on(page: bytes, key: str) -> tuple[str, ...]:
    """Return the projects that the front page at `key` lists, by their canonical names; ValueError for no page."""
    if key.endswith(INDEX_JSON):
        return tuple(canonicalize_name(str(entry.get("name", ""))) for entry in _document(page, "projects"))
    folder = _place(urljoin(HERE, quote(key)))
    places = (_place(link.url).removesuffix("index.html").rstrip("/") for link in _links(page, key))
    below = (place.rpartition("/") for place in places if place)
    return tuple(canonicalize_name(name) for above, _, name in below if above == posixpath.dirname(folder))


def with_projects(page: bytes, key: str, projects: Iterable[str]) -> bytes:
    """Return a front page with a line more for each project that it does not list, and every other byte as it is.

    Raises ValueError where it is no page, or has no place for a line.
    """
    there = set(projects_on(page, key))
    for project in sorted(set(projects) - there):
        page = _with_entry(page, project) if key.endswith(INDEX_JSON) else _with_line(page, key, project)
    return page


def _with_line(page: bytes, key: str, project: str) -> bytes:
    """Return an HTML page with a link more: in the way of the last line that has one project's, else before its end."""
    link = f'<a href="{quote(project)}/">{html.escape(project)}</a>'.encode()
    lines = (line for line in reversed([*ONE_LINK.finditer(page)]) if projects_on(line[0], key))
    line = next(lines, None)
    if line:
        new = line["before"] + link + line["after"]
        return page[: line.end()] + (b"" if line["after"].endswith(b"\n") else b"\n") + new + page[line.end() :]
    end = END_OF_BODY.search(page)
    place = end.start() if end else len(page)
    return page[:place] + link + b"<br>\n" + page[place:]


def _with_entry(page: bytes, project: str) -> bytes:
    """Return a PEP 691 document with a project more at the end of its list."""
    text = page.decode()
    start = LIST_OF_PROJECTS.search(text)
    if start is None:
        msg = "it has no list of projects"
        raise ValueError(msg)
    names, end = json.JSONDecoder().raw_decode(text, start.end())
    entry = json.dumps({"name": project})
    return f"{text[: end - 1]}{', ' if names else ''}{entry}{text[end - 1 :]}".encode()


# ---------------------------------------------------------------- one link


def _links(page: bytes, key: str) -> list[Link]:
    return RepositoryPage.from_html(page, base_url=urljoin(HERE, quote(key))).links


def _of_html(link: Link) -> Listed:
    address, _, fragment = link.url.partition("#")
    hashes = dict(pair.partition("=")[::2] for pair in fragment.split("&"))
    attributes = {name: value for name, value in link.attrs.items() if isinstance(value, str)}
    return Listed(
        name=unquote(urlsplit(address).path.rpartition("/")[2]),
        at=_place(address),
        sha256=_sha256(hashes.get("sha256")),
        requires_python=attributes.get("data-requires-python", ""),
        metadata_sha256=_of_metadata(attributes),
        yanked=attributes.get("data-yanked"),
    )


def _of_metadata(attributes: Mapping[str, str]) -> str:
    values = (attributes.get(name, "").partition("=") for name in METADATA)
    return next((_sha256(value) for kind, _, value in values if kind == "sha256"), "")


def _of_json(entry: Mapping[str, Any], key: str) -> Listed:
    """Read one file of a PEP 691 document; raise ValueError where it is none."""
    name, address = entry.get("filename"), entry.get("url")
    if not isinstance(name, str) or not isinstance(address, str):
        msg = "a file of it has no name or no address"
        raise ValueError(msg)  # noqa: TRY004 - whatever is wrong with a page is one error
    metadata = entry.get("core-metadata", entry.get("dist-info-metadata"))
    yanked = entry.get("yanked", False)
    size, uploaded = entry.get("size"), entry.get("upload-time")
    return Listed(
        name=name,
        at=_place(urljoin(urljoin(HERE, quote(key)), address).partition("#")[0]),
        sha256=_sha256(_table(entry.get("hashes")).get("sha256")),
        size=size if isinstance(size, int) and not isinstance(size, bool) else 0,
        uploaded=uploaded if isinstance(uploaded, str) else "",
        requires_python=str(entry.get("requires-python") or ""),
        metadata_sha256=_sha256(_table(metadata).get("sha256")),
        yanked=(yanked if isinstance(yanked, str) else "") if yanked else None,
    )


def _place(address: str) -> str:
    """Return where an address leads: seen from the root where it is relative, else as it is."""
    if not address.startswith("http://fatwheel.invalid/"):
        return address
    path = unquote(urlsplit(address).path)
    if not path.startswith("/-/"):  # it was absolute, and has a mount in it that only its server knows
        return path
    place = posixpath.relpath(path, ROOT_PATH)
    return ("" if place == "." else place) + ("/" if path.endswith("/") and place != "." else "")


def _document(page: bytes, name: str) -> list[Mapping[str, Any]]:
    """Return a list of tables out of a PEP 691 document; raise ValueError where it has none."""
    try:
        found = _table(json.loads(page)).get(name)
    except RecursionError:
        found = None
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        msg = f"it has no list of {name}"
        raise ValueError(msg)
    return found


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sha256(value: object) -> str:
    return value.lower() if isinstance(value, str) and SHA256.fullmatch(value.lower()) else ""
