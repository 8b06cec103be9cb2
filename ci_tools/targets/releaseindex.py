"""A package index over the files of GitHub Releases: plain pages for any web server, such as GitHub Pages.

The pages are made of the lists that publishing leaves in each release, for a release itself does not say which
accelerator a file is for, or which Python it needs.
"""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from packaging.utils import canonicalize_name

from ci_tools import index
from ci_tools.index import IndexedFile
from ci_tools.model import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ci_tools.release import Unit

__all__ = ["GENERIC", "Linked", "listing", "listing_name", "pages", "read_listing"]

GENERIC = "cpu"  # the index of those who have no accelerator; always there
MOST_BYTES = 16 << 20  # of a list
LISTING = "fatwheel-{unit}.json"


class Linked(NamedTuple):
    """One published file and the address it is fetched from."""

    file: IndexedFile
    address: str


def listing_name(unit: str) -> str:
    """Return the name of the file that lists a unit's files in its release."""
    return LISTING.format(unit="".join(char if char.isascii() and char.isalnum() else "-" for char in unit))


def listing(unit: Unit, requires: Mapping[str, str]) -> bytes:
    """Return the list of a unit's files, with the Python that each `requires`; the same unit gives the same bytes."""
    files = [
        {
            "name": item.name,
            "sha256": item.sha256,
            "size": item.size,
            "folder": item.folder,
            "also": list(item.also),
            "requires_python": requires.get(item.name, ""),
        }
        for item in sorted(unit.items, key=lambda item: item.name)
    ]
    document = {"project": unit.project, "version": unit.version, "unit": unit.name, "files": files}
    return (json.dumps(document, indent=1) + "\n").encode()


def read_listing(content: bytes, uploaded: str) -> tuple[IndexedFile, ...]:
    """Return the files that a list names; raise ValueError where it is none."""
    try:
        document = json.loads(content)
        return tuple(_file(entry, uploaded) for entry in document["files"])
    except (KeyError, TypeError, RecursionError, AttributeError) as error:
        msg = f"it is no list of files: {error}"
        raise ValueError(msg) from None


def _file(entry: Mapping[str, object], uploaded: str) -> IndexedFile:
    """Return one file of a list; raise ValueError or TypeError where the entry is none."""
    texts = {key: entry[key] for key in ("name", "sha256", "folder", "requires_python")}
    folders, size = entry["also"], entry["size"]
    if not all(isinstance(text, str) for text in texts.values()) or not isinstance(size, int):
        msg = "an entry has no name, hash or size"
        raise TypeError(msg)
    if not isinstance(folders, list) or not all(FOLDER.fullmatch(folder) for folder in (texts["folder"], *folders)):
        msg = f"{texts['name']!r} lies in no folder of an index"
        raise ValueError(msg)
    file = IndexedFile(size=size, uploaded=uploaded, also=tuple(folders), **texts)  # type: ignore[arg-type]
    index.project_and_version(file.name)
    return file


def pages(releases: Iterable[Linked]) -> dict[str, bytes]:
    """Return every page of the index by its path: `cu130/index.html`, `cu130/demo/index.html`.

    `pip install --index-url ADDRESS/cu130/` reads them; what no accelerator is named for is in each of them.
    """
    linked = tuple(releases)
    folders = {GENERIC, *(name for file, _ in linked for name in (file.folder, *file.also) if name)}
    projects: dict[str, list[Linked]] = {}
    for one in linked:
        projects.setdefault(index.project_and_version(one.file.name)[0], []).append(one)
    made = {f"{folder}/index.html": index.projects_html(projects) for folder in folders}
    for project, files in projects.items():
        made |= {f"{folder}/{project}/index.html": _page(project, files, folder) for folder in folders}
    return made


def _page(project: str, files: Sequence[Linked], folder: str) -> bytes:
    """Return a project's page, its links leading to where the files are."""
    shown = [one for one in files if one.file.is_listed_in(folder)]
    page = index.project_html(canonicalize_name(project), [one.file._replace(folder="") for one in shown], folder)
    for file, address in shown:
        relative = f'href="../../{quote(file.name)}#'.encode()
        page = page.replace(relative, f'href="{html.escape(address)}#'.encode())
    return page
