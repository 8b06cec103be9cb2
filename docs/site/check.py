"""Checks the links of a finished site: each leads to a file that is there and, with an anchor, to an element in it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEMPLATES = "_static"  # a theme may leave templates of its pages beside its styles
ADDRESSES = (("a", "href"), ("link", "href"), ("img", "src"), ("script", "src"), ("iframe", "src"))


def broken_links(site: Path) -> Iterator[str]:
    """Yield each local link of the site's pages that leads nowhere, with its page."""
    pages = (page for page in sorted(site.rglob("*.html")) if TEMPLATES not in page.relative_to(site).parts)
    for page in pages:
        for address in _addresses(page):
            if _leads_nowhere(page, address):
                yield f"{page.relative_to(site)}: {address} leads nowhere"


def _leads_nowhere(page: Path, address: str) -> bool:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return False
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return True
    anchor = unquote(parts.fragment)
    return bool(anchor) and target.suffix == ".html" and anchor not in _anchors(target)


@cache
def _parsed(page: Path) -> BeautifulSoup:
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


def _addresses(page: Path) -> set[str]:
    tags = _parsed(page)
    return {str(tag[key]) for name, key in ADDRESSES for tag in tags.find_all(name) if tag.get(key)}


@cache
def _anchors(page: Path) -> frozenset[str]:
    return frozenset(str(tag["id"]) for tag in _parsed(page).find_all(id=True))
