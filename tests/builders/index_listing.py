"""What an index lists, read as installers do from its pages only, and what is listed no more."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import unquote, urljoin, urlsplit

from packaging.utils import canonicalize_name
from pypi_simple import ProjectPage, RepositoryPage


class Link(NamedTuple):
    """What a page says of a file: its address, and its sha256 or nothing."""

    url: str
    sha256: str


Listed = dict[tuple[str, str], Link]  # by the page, from the index's root on, and the file's name


def listed(root: str, *folders: str, projects: Iterable[str] = ()) -> Listed:
    """Return every file that the pages of an index name, in its root and in some folders, read as an installer does.

    `projects` are those of pages that no front page names. A page may name a file once. Addresses on the index's own
    host are told from its root on, so that another server of the same index tells the same.
    """
    found: Listed = {}
    for page, name, link in _links(root.rstrip("/") + "/", ("", *folders), tuple(projects)):
        assert (page, name) not in found, f"{page or 'the front page'} names {name} twice"
        found[page, name] = link
    return found


def lost(before: Listed, after: Listed) -> list[str]:
    """Return what was listed and is not any more, at the same address and with the same hash."""
    return sorted(
        f"{page}: {name} was {link}, is {after.get((page, name), 'gone')}"
        for (page, name), link in before.items()
        if (page, name) not in after or not _is_same(link, after[page, name])
    )


def _is_same(before: Link, after: Link) -> bool:
    """Whether two links lead to one file; a hash may be told where none was."""
    return before.url == after.url and before.sha256 in {"", after.sha256}


def listed_in_json(root: str, page: str) -> Mapping[str, Link]:
    """Return what the PEP 691 document beside a page names."""
    url = urljoin(root.rstrip("/") + "/", f"{page}index.json")
    with urllib.request.urlopen(url) as answer:
        packages = ProjectPage.from_json_data(json.load(answer), url).packages
    return {package.filename: Link(_told(package.url, root), package.digests.get("sha256", "")) for package in packages}


def _links(root: str, folders: Sequence[str], projects: Sequence[str]) -> Iterator[tuple[str, str, Link]]:
    for folder in folders:
        front = urljoin(root, f"{folder}/" if folder else "")
        links = _read(front)
        yield from _files(root, front, links)
        pages = {front + f"{canonicalize_name(name)}/" for name in projects}
        pages |= {page for url in links if (page := _as_page(url)) and _is_below(page, front, root, folders)}
        for page in sorted(pages):
            yield from _files(root, page, _read(page))


def _read(url: str) -> dict[str, str]:
    """Return the links of a page, each with what follows `#`; none where there is no page."""
    try:
        with urllib.request.urlopen(url) as answer:
            links = RepositoryPage.from_html(answer.read(), url, "utf-8").links
    except HTTPError as error:
        with error:
            return {}
    assert len(links) == len({link.url for link in links}), f"{url} has a link twice"
    return {address: fragment for link in links for address, _, fragment in [link.url.partition("#")]}


def _files(root: str, page: str, links: Mapping[str, str]) -> Iterator[tuple[str, str, Link]]:
    for url, fragment in links.items():
        name = unquote(urlsplit(url).path.rpartition("/")[2])
        if name and not _as_page(url) and urlsplit(url).scheme.startswith("http"):
            kind, _, digest = fragment.partition("=")
            yield page.removeprefix(root), name, Link(_told(url, root), digest if kind == "sha256" else "")


def _as_page(url: str) -> str:
    """Return the page that a link leads to, or nothing where it leads to a file."""
    path = url.partition("?")[0].removesuffix("index.html")
    return path if path.endswith("/") else ""


def _is_below(page: str, front: str, root: str, folders: Sequence[str]) -> bool:
    """Whether a page is one of a project, and not of the folder, of a folder below it, or of somebody else."""
    others = {urljoin(root, f"{folder}/") for folder in folders}
    return page.startswith(front) and page not in {front, *others}


def _told(url: str, root: str) -> str:
    """Return an address as one and the same, however it is spelled and wherever the index is served."""
    parts, own = urlsplit(url), urlsplit(root)
    path = unquote(parts.path)
    return path if parts.netloc == own.netloc else f"{parts.scheme}://{parts.netloc}{path}"
