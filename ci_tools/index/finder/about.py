"""Reads what a project says of itself in its METADATA: the summary, and links to its source and changelog."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.formats.wheel import explain_headers, read_headers
from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.files import METADATA_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ci_tools.index.pages import IndexedFile

# The well-known labels of Project-URL and their other names: PyPA, "Well-known Project URLs in Metadata".
LABELS = {
    "Source": ("source", "repository", "sourcecode", "github"),
    "Changelog": ("changelog", "changes", "whatsnew", "history", "releasenotes"),
    "Documentation": ("documentation", "docs"),
    "Issues": ("issues", "bugs", "issue", "tracker", "issuetracker", "bugtracker"),
    "Homepage": ("homepage",),
}
WEB = re.compile(r"https?://[^\s\"<>]+")
LONGEST = 300  # characters of a summary


class About(NamedTuple):
    """The summary of a project and its links, each a label and an address."""

    summary: str = ""
    links: tuple[tuple[str, str], ...] = ()


def read_about(metadata: bytes) -> About:
    """Return what a METADATA file says of its project; of an unreadable one, nothing."""
    said = metadata.decode(errors="replace")
    message = read_headers("" if explain_headers(said) else said, "METADATA")
    found: dict[str, str] = {}
    old = (f"homepage, {url}" for url in _texts(message.get_all("Home-page")))  # deprecated by PEP 753
    for text in (*_texts(message.get_all("Project-URL")), *old):
        label, _, address = (part.strip() for part in text.partition(","))
        plain = re.sub(r"[^a-z0-9]", "", label.lower())
        name = next((name for name, others in LABELS.items() if plain in others), "")
        if name and WEB.fullmatch(address):
            found.setdefault(name, address)
    summary = next(iter(_texts(message.get_all("Summary"))), "").strip()
    return About(summary[:LONGEST], tuple((name, found[name]) for name in LABELS if name in found))


def read_newest(files: Iterable[IndexedFile], read: Callable[[str], bytes | None]) -> About:
    """Return what the newest wheel says of its project.

    `read` returns the content of a file of the index by its key: of the `.metadata` beside the wheel.
    """
    wheels = [file for file in files if file.metadata_sha256 and not file.is_outside and file.yanked is None]
    newest = max(wheels, key=lambda file: (project_and_version(file.name)[1], file.name), default=None)
    content = read(f"{newest.key}{METADATA_SUFFIX}") if newest else None
    if newest is None or content is None or hashlib.sha256(content).hexdigest() != newest.metadata_sha256:
        return About()
    return read_about(content)


def _texts(values: Sequence[object] | None) -> list[str]:
    return [str(value) for value in values or ()]
