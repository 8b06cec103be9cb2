"""Pages of an index that others wrote: what a project's page lists, and a line of ours on a page of projects.

A page is read as installers read it, which go by the addresses of its links and not by their texts.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Listed", "add_projects", "parse_project_page", "projects_on"]

# The root of an index as an address so deep that a link which leads out of it can be told from one that does not.
ROOT_PATH = "/-/-/-/-/-/-/-/-/root/"
HOST = "http://fatwheel.invalid"
HERE = f"{HOST}{ROOT_PATH}"
INDEX_JSON = "index.json"
SHA256 = re.compile(r"[0-9a-f]{64}")
METADATA = ("data-core-metadata", "data-dist-info-metadata")  # PEP 714, and PEP 658 before it
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")  # PEP 700, which uv insists on
LARGEST = 1 << 53  # bytes of a file: a larger number is not the same in every reader of JSON
# What may stand around the link of a line that ours is modelled on; no word of others is said again.
BEFORE = re.compile(r"\s*(<(dd|dt|li|p|td|tr)>\s*)*", re.IGNORECASE)
AFTER = re.compile(r"\s*(</?(br|dd|dt|li|p|td|tr)\s*/?>\s*)*", re.IGNORECASE)
END_OF_LINK = re.compile(r"</a>", re.IGNORECASE)
END_OF_BODY = re.compile(r"</(body|html)>", re.IGNORECASE)
AS_IT_IS = "surrogateescape"  # bytes that are no text come out as they went in
LIST_OF_PROJECTS = re.compile(r'"projects"\s*:\s*(?=\[)')
MOST_TRIES = 20  # places for a line that are tried, from the best to the last
# HTML as installers' own parsers take it: what is not closed hides all that follows.
OPENING = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z][^\s/>]*)")
ATTRIBUTE = re.compile(
    r"""[\s/]*(?:(?P<end>>)|(?P<name>[^\s/>][^\s/>=]*)(?:\s*=\s*(?P<value>"[^"]*"|'[^']*'|(?!["'])[^\s>]*))?)"""
)
END_OF_COMMENT = re.compile(r"--!?>")
RAW = {name: re.compile(rf"</{name}[\s/>]", re.IGNORECASE) for name in ("script", "style")}


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


def parse_project_page(page: bytes, key: str) -> tuple[Listed, ...]:
    """Return what the page of a project at `key` lists; raise ValueError where it is no page."""
    if key.endswith(INDEX_JSON):
        found = (_parse_entry(entry, key) for entry in _document(page, "files"))
    else:
        found = (_parse_anchor(link) for link in _links(_text(page), key))
    return tuple(one for one in found if one and one.name)


def projects_on(page: bytes, key: str) -> tuple[str, ...]:
    """Return the projects that the front page at `key` lists, by their canonical names; ValueError for no page."""
    if key.endswith(INDEX_JSON):
        return tuple(canonicalize_name(str(entry.get("name", ""))) for entry in _document(page, "projects"))
    folder = _folder(key)
    return tuple(filter(None, (_project(link, folder) for link in _links(_text(page), key))))


def _folder(key: str) -> str:
    """Return the folder whose page lies at a key."""
    return key.rpartition("/")[0]


def _project(link: _Anchor, folder: str) -> str:
    """Return the project that a link of a folder's front page leads to; nothing where it leads elsewhere.

    Of a link that begins with a slash only its server knows where the index begins: its end is what can be compared.
    """
    place = (link.place or "").removesuffix("index.html")
    above, _, name = place.rstrip("/").rpartition("/")
    is_below = above == folder or (place.startswith("/") and f"{above}/".endswith(f"/{folder}/" if folder else "/"))
    return canonicalize_name(name) if is_below and "://" not in place else ""


def add_projects(page: bytes, key: str, projects: Iterable[str]) -> bytes:
    """Return a front page with a line more for each project that it does not list, and every other byte as it is.

    Raises ValueError where it is no page, or has no place for a line.
    """
    there = projects_on(page, key)
    new = sorted(set(projects) - set(there))
    ways = _add_entries(page, new) if key.endswith(INDEX_JSON) else _add_lines(page, key, new)
    found = next((way for way in ways if _lists(way, key, [*there, *new])), None) if new else page
    if found is None:
        msg = "it has no place where a link is read"
        raise ValueError(msg)
    return found


def _lists(page: bytes, key: str, projects: Iterable[str]) -> bool:
    """Return whether a page lists just these projects: a comment may reach over a line that looks like any other."""
    try:
        return sorted(projects_on(page, key)) == sorted(projects)
    except ValueError:
        return False


def _add_lines(page: bytes, key: str, projects: Iterable[str]) -> Iterator[bytes]:
    """Yield an HTML page with links more: after the last lines that have one project's, else before its end."""
    if b"\0" in page:
        msg = "it is no text"
        raise ValueError(msg)
    text = _text(page)
    links = [f'<a href="{quote(project)}/">{html.escape(project)}</a>' for project in projects]
    for place, before, after in (*_places(text, key), *_ends(text)):
        lines = "".join(f"{before}{link}{after}" for link in links)
        yield f"{text[:place]}{lines}{text[place:]}".encode(errors=AS_IT_IS)


def _places(text: str, key: str) -> Iterator[tuple[int, str, str]]:
    """Yield where lines may go and what stands around their links, from the last place to the first.

    It is behind lines with the link of a project and no other.
    """
    links = _links(text, key)
    starts = [text.rfind("\n", 0, link.start) + 1 for link in links]
    counts = Counter(starts)
    for start, link in [*zip(starts, links, strict=True)][: -MOST_TRIES - 1 : -1]:
        found = _around(text, start, link.start) if counts[start] == 1 and _project(link, _folder(key)) else None
        if found:
            yield found


def _around(text: str, start: int, at: int) -> tuple[int, str, str] | None:
    """Return where a line with one link ends and what stands around the link; None where more than a link ends there.

    Words and the end of a page are not said again.
    """
    end = text.find("\n", at) + 1 or len(text)
    closed = END_OF_LINK.search(text, at, end)
    if closed is None or END_OF_BODY.search(text, closed.end(), end):
        return None
    before, after = text[start:at], text[closed.end() : end].removesuffix("\n")
    is_simple = BEFORE.fullmatch(before) and AFTER.fullmatch(after)
    gap = "" if text[:end].endswith("\n") else "\n"
    if gap:
        return (end, f"\n{before}", after) if is_simple else (end, "\n", "<br>")
    return (end, before, f"{after}\n") if is_simple else (end, "", "<br>\n")


def _ends(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the ends that a page has, the last first, and where it has none that of its text."""
    ends = [len(text[: found.start()].rstrip(" \t")) for found in END_OF_BODY.finditer(text)][: -MOST_TRIES - 1 : -1]
    for place in (*ends[1:], *ends[:1], len(text)):
        yield place, "", "<br>\n"


def _add_entries(page: bytes, projects: Iterable[str]) -> Iterator[bytes]:
    """Yield a PEP 691 document with projects more at the end of each list that may be that of its projects."""
    text = page.decode()
    for start in LIST_OF_PROJECTS.finditer(text):
        try:
            names, end = json.JSONDecoder().raw_decode(text, start.end())
        except (ValueError, RecursionError):  # it stands in a text
            continue
        more = ", ".join(json.dumps({"name": project}) for project in projects)
        yield f"{text[: end - 1]}{', ' if names else ''}{more}{text[end - 1 :]}".encode()


# ---------------------------------------------------------------- one link


class _Anchor(NamedTuple):
    """A link of an HTML page."""

    start: int  # where its tag begins
    attributes: Mapping[str, str]
    address: str  # as seen from the page
    place: str | None  # where that leads, seen from the root; None where it leads nowhere


def _text(page: bytes) -> str:
    """Return an HTML page as text of which `AS_IT_IS` makes the same bytes again."""
    return page.decode(errors=AS_IT_IS)


def _links(text: str, key: str) -> list[_Anchor]:
    """Return the links of an HTML page, as pip and uv find them: wherever a `<base>` stands, the first one counts."""
    here, base, found = f"{HERE}{quote(key)}", "", []
    for start, name, attributes in _tags(text):
        href = attributes.get("href")
        if href is not None and name == "a":
            found.append((start, attributes, href))
        elif href is not None and not base:
            base = _join_address(here, href) or here
    return [_anchor(start, attributes, _join_address(base or here, href)) for start, attributes, href in found]


def _anchor(start: int, attributes: Mapping[str, str], address: str) -> _Anchor:
    return _Anchor(start, attributes, address, _place(address.partition("#")[0]) if address else None)


def _join_address(base: str, address: str) -> str:
    """Return an address as seen from another; nothing where it is none, as `http://[`."""
    try:
        return urljoin(base, address.strip())
    except ValueError:
        return ""


def _tags(text: str) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Yield where each `<a>` and `<base>` of a page begins, its name and attributes.

    Python's own parser takes time in the square of what is not closed, before 3.13.6 (CVE-2025-6069).
    """
    place = text.find("<")
    while place >= 0:
        opening = OPENING.match(text, place)
        name = opening["name"].lower() if opening else ""
        if opening is None:
            end = _skip(text, place)
        else:
            attributes, end = _attributes(text, opening.end(), is_asked=name in {"a", "base"})
            if end > 0 and name in {"a", "base"} and not opening["close"]:
                yield place, name, attributes
            if end > 0 and name in RAW and not opening["close"]:
                raw = RAW[name].search(text, end)
                end = raw.start() if raw else -1
        place = text.find("<", end) if end > 0 else -1


def _skip(text: str, place: int) -> int:
    """Return where what begins with `<` and is no tag ends; -1 where that is never."""
    if text.startswith("<!--", place):
        end = END_OF_COMMENT.search(text, place + 2)
        return end.end() if end else -1
    if text[place + 1 : place + 2] in {"!", "?", "/"}:
        return text.find(">", place) + 1 or -1
    return place + 1


def _attributes(text: str, place: int, *, is_asked: bool) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag, the first of each name, and where it ends; -1 where that is never."""
    found: dict[str, str] = {}
    while attribute := ATTRIBUTE.match(text, place):
        place = attribute.end()
        if attribute["end"]:
            return found, place
        if is_asked:
            value = attribute["value"] or ""
            value = value[1:-1] if value[:1] in {'"', "'"} else value
            found.setdefault(attribute["name"].lower(), html.unescape(value) if "&" in value else value)
    return found, -1


def _parse_anchor(link: _Anchor) -> Listed | None:
    if link.place is None:
        return None
    fragment = link.address.partition("#")[2]
    hashes = dict(pair.partition("=")[::2] for pair in fragment.split("&"))
    attributes = {name: _readable(value) for name, value in link.attributes.items()}
    return Listed(
        name=_name(link.place),
        at=link.place,
        sha256=_sha256(hashes.get("sha256")),
        requires_python=attributes.get("data-requires-python", ""),
        metadata_sha256=_metadata_hash(attributes),
        yanked=attributes.get("data-yanked"),
    )


def _name(place: str) -> str:
    """Return the file name at the end of a place."""
    if "://" not in place:
        return place.rpartition("/")[2]
    return _readable(unquote(urlsplit(place).path.rpartition("/")[2]))


def _metadata_hash(attributes: Mapping[str, str]) -> str:
    values = (attributes.get(name, "").partition("=") for name in METADATA)
    return next((_sha256(value) for kind, _, value in values if kind == "sha256"), "")


def _parse_entry(entry: Mapping[str, Any], key: str) -> Listed | None:
    """Read one file of a PEP 691 document; None where it has no name or no address, as installers pass it over."""
    name, address = entry.get("filename"), entry.get("url")
    place = (
        _place(_join_address(f"{HERE}{quote(key)}", address).partition("#")[0]) if isinstance(address, str) else None
    )
    if not isinstance(name, str) or place is None:
        return None
    metadata = entry.get("core-metadata", entry.get("dist-info-metadata"))
    yanked, requires_python = entry.get("yanked", False), entry.get("requires-python")
    size, uploaded = entry.get("size"), entry.get("upload-time")
    return Listed(
        name=_readable(name),
        at=place,
        sha256=_sha256(_table(entry.get("hashes")).get("sha256")),
        size=size if type(size) is int and 0 <= size < LARGEST else 0,
        uploaded=uploaded if isinstance(uploaded, str) and TIME.fullmatch(uploaded) else "",
        requires_python=_readable(requires_python) if isinstance(requires_python, str) else "",
        metadata_sha256=_sha256(_table(metadata).get("sha256")),
        yanked=(_readable(yanked) if isinstance(yanked, str) else "") if yanked else None,
    )


def _readable(text: str) -> str:
    """Return text without halves of characters, which nothing can be written with."""
    return text.encode(errors="replace").decode() if not text.isascii() else text


def _place(address: str) -> str | None:
    """Return where an address leads: seen from the root where it is relative, else as it is; None for nowhere."""
    if not address.startswith(f"{HOST}/"):
        return _quote_address(address)
    try:
        path = unquote(urlsplit(address).path, errors="strict")
    except ValueError:
        return None
    if not _is_text(path):
        return None
    if not path.startswith("/-/"):  # it was absolute, and has a mount in it that only its server knows
        return "/" + posixpath.normpath(path).lstrip("/") + "/" * (path.endswith("/") and path != "/")
    place = posixpath.relpath(path, ROOT_PATH)
    return ("" if place == "." else place) + ("/" if path.endswith("/") and place != "." else "")


def _is_text(path: str) -> bool:
    """Return whether no character of a path is half of one, or ends a line of any file that names it."""
    return path.isprintable() or not re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", path)


def _quote_address(address: str) -> str | None:
    """Return an address on the web with what may not stand in one quoted, as installers ask for it; None for others."""
    is_web = address.startswith(("https://", "http://"))
    return quote(address, safe="%/:=&?~#+!$,;'@()*[]|", errors=AS_IT_IS) if is_web else None


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
