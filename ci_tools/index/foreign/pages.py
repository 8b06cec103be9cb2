"""Pages of an index that others wrote: reads the links of project pages, and adds our lines to front pages.

Pages are read as installers read them: by the addresses of links, not by their texts.
"""

from __future__ import annotations

import hashlib
import html
import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from ci_tools.index.pages import Pairs

# An address for the root of an index, so deep that a link which leaves the root can be recognized.
ROOT_PATH = "/-/-/-/-/-/-/-/-/root/"
HOST = "http://fatwheel.invalid"
HERE = f"{HOST}{ROOT_PATH}"
INDEX_JSON = "index.json"
METADATA = ("core-metadata", "dist-info-metadata")  # PEP 714, and PEP 658 before it
KNOWN = frozenset({*METADATA, "requires-python", "yanked"})
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)")  # PEP 700, which uv enforces
LARGEST = 1 << 53  # bytes of a file: JSON readers may round larger numbers (RFC 8259, section 6)
# Markup that may surround the link of a line that ours copies; words of others are not copied.
BEFORE = re.compile(r"\s*(<(dd|dt|li|p|td|tr)>\s*)*", re.IGNORECASE)
AFTER = re.compile(r"\s*(</?(br|dd|dt|li|p|td|tr)\s*/?>\s*)*", re.IGNORECASE)
END_OF_LINK = re.compile(r"</a>", re.IGNORECASE)
END_OF_BODY = re.compile(r"</(body|html)>", re.IGNORECASE)
AS_IT_IS = "surrogateescape"  # invalid bytes are written back unchanged
SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST = re.compile(r"[\w+/=:.-]{1,256}", re.ASCII)
KEY = re.compile(r"[a-z0-9_-]{1,64}")
LIST_OF_PROJECTS = re.compile(r'"projects"\s*:\s*(?=\[)')
MAX_TRIES = 20  # places tried for a line, the best first
# HTML as installers' parsers read it: an unclosed element hides everything after it.
OPENING = re.compile(r"<(?P<close>/?)(?P<name>[a-zA-Z][^\s/>]*)")
ATTRIBUTE = re.compile(
    r"""[\s/]*(?:(?P<end>>)|(?P<name>[^\s/>][^\s/>=]*)(?:\s*=\s*(?P<value>"[^"]*"|'[^']*'|(?!["'])[^\s>]*))?)"""
)
END_OF_COMMENT = re.compile(r"--!?>")
RAW = {name: re.compile(rf"</{name}[\s/>]", re.IGNORECASE) for name in ("script", "style")}


class Listed(NamedTuple):
    """One link of a project's page: its target, and the facts that the page gives of it."""

    name: str  # the file's name
    at: str  # a key below the root, `../…` or `/…` outside of it, or a URL
    sha256: str = ""
    size: int = 0  # bytes; 0: not on the page
    uploaded: str = ""  # RFC 3339
    requires_python: str = ""
    metadata_sha256: str = ""
    yanked: str | None = None
    hashes: Pairs = ()  # of other algorithms
    said: Pairs = ()  # other facts on the page, by PEP 691's keys


def parse_project_page(page: bytes, key: str) -> tuple[Listed, ...]:
    """Return the links on the project page at `key`; raise ValueError if it is not a page."""
    if key.endswith(INDEX_JSON):
        found = (_parse_entry(entry, key) for entry in _document(page, "files"))
    else:
        found = (_parse_anchor(link) for link in _links(_text(page), key))
    return tuple(one for one in found if one and one.name)


def read_links(page: bytes, key: str) -> tuple[Listed, ...]:
    """Return the links on the project page at `key`; none for a page that installers cannot read either."""
    try:
        return parse_project_page(page, key)
    except ValueError:
        return ()


def projects_on(page: bytes, key: str) -> tuple[str, ...]:
    """Return the canonical names of the projects on the front page at `key`; raise ValueError if it is not a page."""
    if key.endswith(INDEX_JSON):
        return tuple(canonicalize_name(str(entry.get("name", ""))) for entry in _document(page, "projects"))
    folder = _folder(key)
    return tuple(filter(None, (_project(link, folder) for link in _links(_text(page), key))))


def links_elsewhere(page: bytes, key: str, projects: Iterable[str]) -> tuple[str, ...]:
    """Return the targets of a front page's links besides some projects, folders, and its own place and those above."""
    if key.endswith(INDEX_JSON):
        return tuple(name for name in projects_on(page, key) if name not in projects)
    folder, known = _folder(key), frozenset(projects)
    links = ((link.place or "", _project(link, folder)) for link in _links(_text(page), key))
    return tuple(
        dict.fromkeys(
            place
            for place, project in links
            if place.strip("./") and project not in known and not f"{folder}/".startswith(place.rstrip("/") + "/")
        )
    )


def _folder(key: str) -> str:
    """Return the folder of the page at a key."""
    return key.rpartition("/")[0]


def _project(link: _Anchor, folder: str) -> str:
    """Return the project that a link of a folder's front page leads to, or "" if it leads elsewhere.

    For a link that begins with a slash, only the server knows where the index begins: its end is compared.
    """
    place = (link.place or "").removesuffix("index.html")
    above, _, name = place.rstrip("/").rpartition("/")
    is_below = above == folder or (place.startswith("/") and f"{above}/".endswith(f"/{folder}/" if folder else "/"))
    return canonicalize_name(name) if is_below and "://" not in place else ""


def add_projects(page: bytes, key: str, projects: Iterable[str]) -> bytes:
    """Return a front page with a new line for each missing project, and every other byte unchanged.

    Raises ValueError if it is not a page, or has no place for a line.
    """
    there = projects_on(page, key)
    new = sorted(set(projects) - set(there))
    ways = _add_entries(page, new) if key.endswith(INDEX_JSON) else _add_lines(page, key, new)
    found = next((way for way in ways if _lists(way, key, [*there, *new])), None) if new else page
    if found is None:
        raise ValueError("it has no place for a new link")
    return found


def _lists(page: bytes, key: str, projects: Iterable[str]) -> bool:
    """Return whether a page lists exactly these projects: a line may look right and still be within a comment."""
    try:
        return sorted(projects_on(page, key)) == sorted(projects)
    except ValueError:
        return False


def _add_lines(page: bytes, key: str, projects: Iterable[str]) -> Iterator[bytes]:
    """Yield versions of an HTML page with new links: after the last lines of one project each, else before its end."""
    if b"\0" in page:
        raise ValueError("it is not text")
    text = _text(page)
    links = [f'<a href="{quote(project)}/">{html.escape(project)}</a>' for project in projects]
    for place, before, after in (*_places(text, key), *_ends(text)):
        lines = "".join(f"{before}{link}{after}" for link in links)
        yield f"{text[:place]}{lines}{text[place:]}".encode(errors=AS_IT_IS)


def _places(text: str, key: str) -> Iterator[tuple[int, str, str]]:
    """Yield the places for new lines, and the text around their links, from the last place to the first.

    A place is after a line whose only link is one of a project.
    """
    links = _links(text, key)
    starts = [text.rfind("\n", 0, link.start) + 1 for link in links]
    counts = Counter(starts)
    for start, link in [*zip(starts, links, strict=True)][: -MAX_TRIES - 1 : -1]:
        found = _around(text, start, link.start) if counts[start] == 1 and _project(link, _folder(key)) else None
        if found:
            yield found


def _around(text: str, start: int, at: int) -> tuple[int, str, str] | None:
    """Return the end of a line with one link, and the text around the link; None if another element ends there.

    Words and the end of the page are not copied.
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
    """Yield the ends of a page, the last first, or the end of its text if it has none."""
    ends = [len(text[: found.start()].rstrip(" \t")) for found in END_OF_BODY.finditer(text)][: -MAX_TRIES - 1 : -1]
    for place in (*ends[1:], *ends[:1], len(text)):
        yield place, "", "<br>\n"


def _add_entries(page: bytes, projects: Iterable[str]) -> Iterator[bytes]:
    """Yield versions of a PEP 691 document with new projects at the end of each list that may be the right one."""
    text = page.decode()
    for start in LIST_OF_PROJECTS.finditer(text):
        try:
            names, end = json.JSONDecoder().raw_decode(text, start.end())
        except (ValueError, RecursionError):  # it is within a string
            continue
        more = ", ".join(json.dumps({"name": project}) for project in projects)
        yield f"{text[: end - 1]}{', ' if names else ''}{more}{text[end - 1 :]}".encode()


# ---------------------------------------------------------------- one link


class _Anchor(NamedTuple):
    """A link of an HTML page."""

    start: int  # the offset of its tag
    attributes: Mapping[str, str]
    address: str  # relative to the page
    place: str | None  # its target relative to the root; None: not a valid target


def _text(page: bytes) -> str:
    """Return an HTML page as text that `AS_IT_IS` encodes to the same bytes."""
    return page.decode(errors=AS_IT_IS)


def _links(text: str, key: str) -> list[_Anchor]:
    """Return the links of an HTML page as pip and uv find them: the first `<base>` applies, wherever it is."""
    here, base, found = f"{HERE}{quote(key)}", "", []
    for start, name, attributes in _tags(text):
        href = attributes.get("href")
        if href is not None and name == "a":
            found.append((start, attributes, href))
        elif href is not None and not base:
            base = _join_address(here, href) or here
    joined = [(start, said, _join_address(base or here, href)) for start, said, href in found]
    return [_Anchor(start, said, at, _place(at.partition("#")[0]) if at else None) for start, said, at in joined]


def _join_address(base: str, address: str) -> str:
    """Return an address resolved against another, or "" if it is invalid, as `http://[`."""
    try:
        return urljoin(base, address.strip())
    except ValueError:
        return ""


def _tags(text: str) -> Iterator[tuple[int, str, dict[str, str]]]:
    """Yield the offset, name and attributes of each `<a>` and `<base>` of a page.

    Before Python 3.13.6, its own parser takes quadratic time for unclosed elements (CVE-2025-6069).
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
    """Return the end of markup that begins with `<` and is not a tag; -1 if it never ends."""
    if text.startswith("<!--", place):
        end = END_OF_COMMENT.search(text, place + 2)
        return end.end() if end else -1
    if text[place + 1 : place + 2] in {"!", "?", "/"}:
        return text.find(">", place) + 1 or -1
    return place + 1


def _attributes(text: str, place: int, *, is_asked: bool) -> tuple[dict[str, str], int]:
    """Return the attributes of a tag, the first of each name, and the tag's end; -1 if it never ends."""
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
    pairs = (pair.partition("=")[::2] for pair in fragment.split("&"))
    sha256, hashes = hashes_in((name, value) for name, value in pairs if name in hashlib.algorithms_guaranteed)
    data = ((name.removeprefix("data-"), value) for name, value in link.attributes.items() if name.startswith("data-"))
    attributes = {name: readable(value) for name, value in data}
    metadata_sha256, metadata = metadata_in(attributes.get(name, "") for name in METADATA)
    more = (pair for pair in attributes.items() if pair[0] not in KNOWN)
    return Listed(
        name=_name(link.place),
        at=link.place,
        sha256=sha256,
        requires_python=attributes.get("requires-python", ""),
        metadata_sha256=metadata_sha256,
        yanked=attributes.get("yanked"),
        hashes=hashes,
        said=said_in((*metadata, *more)),
    )


def _name(place: str) -> str:
    """Return the file name at the end of a target."""
    if "://" not in place:
        return place.rpartition("/")[2]
    return readable(unquote(urlsplit(place).path.rpartition("/")[2]))


def _parse_entry(entry: Mapping[str, Any], key: str) -> Listed | None:
    """Read one file of a PEP 691 document; None if it has no name or address, as installers skip it."""
    name, address = entry.get("filename"), entry.get("url")
    if not isinstance(name, str) or not isinstance(address, str):
        return None
    place = _place(_join_address(f"{HERE}{quote(key)}", address).partition("#")[0])
    if place is None:
        return None
    metadata = entry.get("core-metadata", entry.get("dist-info-metadata"))
    told = ["true"] if metadata is True else [f"{kind}={value}" for kind, value in _table(metadata).items()]
    metadata_sha256, other = metadata_in(told)
    sha256, hashes = hashes_in(_table(entry.get("hashes")).items())
    signed = {True: "true", False: "false"}.get(entry.get("gpg-sig"))  # type: ignore[arg-type]
    yanked, requires_python = entry.get("yanked", False), entry.get("requires-python")
    size, uploaded = entry.get("size"), entry.get("upload-time")
    return Listed(
        name=readable(name),
        at=place,
        sha256=sha256,
        size=size if type(size) is int and 0 <= size < LARGEST else 0,
        uploaded=uploaded if isinstance(uploaded, str) and TIME.fullmatch(uploaded) else "",
        requires_python=readable(requires_python) if isinstance(requires_python, str) else "",
        metadata_sha256=metadata_sha256,
        yanked=(readable(yanked) if isinstance(yanked, str) else "") if yanked else None,
        hashes=hashes,
        said=said_in((*other, ("gpg-sig", signed), ("provenance", entry.get("provenance")))),
    )


def _place(address: str) -> str | None:
    """Return the target of an address: relative to the root, else the address itself; None if it is invalid."""
    if not address.startswith(f"{HOST}/"):
        is_web = address.startswith(("https://", "http://"))
        return quote(address, safe="%/:=&?~#+!$,;'@()*[]|", errors=AS_IT_IS) if is_web else None
    try:
        path = unquote(urlsplit(address).path, errors="strict")
    except ValueError:
        return None
    # No page says a lone surrogate, or a character that ends a line.
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", path):
        return None
    if not path.startswith("/-/"):  # it was absolute, with a mount point that only its server knows
        return "/" + posixpath.normpath(path).lstrip("/") + "/" * (path.endswith("/") and path != "/")
    place = posixpath.relpath(path, ROOT_PATH)
    return ("" if place == "." else place) + ("/" if path.endswith("/") and place != "." else "")


def _document(page: bytes, name: str) -> list[Mapping[str, Any]]:
    """Return a list of tables in a PEP 691 document; raise ValueError if it has none."""
    try:
        found = _table(json.loads(page)).get(name)
    except RecursionError:
        found = None
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise ValueError(f"it has no list of {name}")
    return found


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# ---------------------------------------------------------------- what a page says of a file


def hashes_in(pairs: Iterable[tuple[str, object]]) -> tuple[str, Pairs]:
    """Return the sha256, and the other hashes: among them a sha256 that no file has, for which installers refuse it."""
    found = {name: value.lower() for name, value in pairs if isinstance(value, str)}
    sha256 = found.get("sha256", "")
    sha256 = sha256 if SHA256.fullmatch(sha256) else ""
    others = (pair for pair in found.items() if not sha256 or pair[0] != "sha256")
    return sha256, tuple(sorted(pair for pair in others if KEY.fullmatch(pair[0]) and DIGEST.fullmatch(pair[1])))


def metadata_in(values: Iterable[str]) -> tuple[str, Pairs]:
    """Return the sha256 of the METADATA beside a file; else what the page says of it: `true`, or another hash."""
    there = [value for value in values if value not in {"", "false"}]
    sha256, others = hashes_in(value.partition("=")[::2] for value in reversed(there))
    if sha256 or not there:
        return sha256, ()
    return "", (("core-metadata", next((f"{kind}={digits}" for kind, digits in others), "true")),)


def said_in(pairs: Iterable[tuple[str, object]]) -> Pairs:
    """Return what else a page says; an attribute without a value says nothing."""
    found = ((name, readable(value)) for name, value in pairs if isinstance(value, str))
    return tuple(sorted((name, value) for name, value in found if value and KEY.fullmatch(name)))


def readable(text: str) -> str:
    """Return text without lone surrogates, which cannot be encoded."""
    return text.encode(errors="replace").decode() if not text.isascii() else text
