"""What installers see of an index in a folder, and a folder whose writer is killed."""

from __future__ import annotations

import hashlib
import html
import json
import posixpath
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from ci_tools.index.objects.store import FolderStore
from ci_tools.index.pages import is_sealed
from ci_tools.machine.context import Silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_tools.index.objects.store import Content, Found

LINK = re.compile(r'<a href="([^"#]*)(?:#sha256=([0-9a-f]+))?"([^>]*)>([^<]*)</a>')
YANK = re.compile(r'data-yanked="([^"]*)"')

Key = tuple[str, str]  # the name and the sha256 of a file
Seen = dict[Key, "str | None"]  # by file: its yank


class Killed(BaseException):
    """The process ends here."""


class MortalStore(FolderStore):
    """A folder whose writer is killed before a write; what it has begun in other threads ends there too."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, Silent())
        self.lock, self.left, self.writes = threading.Lock(), -1, 0

    def put(self, key: str, content: Content, *, instead_of: Found | None, generation: int = 0) -> bool:
        """Put content, or die."""
        self._live()
        return super().put(key, content, instead_of=instead_of, generation=generation)

    def remove(self, key: str) -> None:
        """Remove a file, or die."""
        self._live()
        super().remove(key)

    def _live(self) -> None:
        with self.lock:
            if self.left == 0:
                raise Killed
            self.left -= 1
            self.writes += 1


class Pages(NamedTuple):
    """The pages of a project in the folders of an index."""

    root: Path
    project: str

    def read(self, folder: str) -> Seen | None:
        """Return the files that a page lists, by the bytes that are there; None if there is no page."""
        path = self.path(folder)
        if not path.exists():
            return None
        found: Seen = {}
        for href, _, attributes, _ in LINK.findall(path.read_text()):
            name, actual = self._file(path, href)
            yank = YANK.search(attributes)
            if actual:
                found[name, actual] = html.unescape(yank[1]) if yank else None
        return found

    def all(self, folders: Iterable[str]) -> dict[str, Seen]:
        """Return what every page lists."""
        return {folder: seen for folder in folders if (seen := self.read(folder)) is not None}

    def broken(self, folder: str) -> Iterator[str]:
        """Yield the links of a page of ours that lead to nothing, or to other bytes than they say."""
        path = self.path(folder)
        for href, sha256, _, _ in LINK.findall(path.read_text()) if self.is_ours(folder) else ():
            actual = self._file(path, href)[1]
            if not actual or sha256 not in {"", actual}:
                yield f"{path.relative_to(self.root)} lists {href}, which is {actual or 'not there'}"

    def is_ours(self, folder: str) -> bool:
        """Whether we have written a page."""
        path = self.path(folder)
        return path.exists() and is_sealed(path.read_bytes())

    def path(self, folder: str) -> Path:
        """Return where a page is."""
        return self.root / folder / self.project / "index.html"

    def _file(self, page: Path, href: str) -> Key:
        place = unquote(href)
        path = self.root / place.lstrip("/") if place.startswith("/") else Path(posixpath.normpath(page.parent / place))
        return path.name, hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def read_document(path: Path) -> Seen:
    """Return the files in a PEP 691 document."""
    yanks = {False: None, True: ""}
    return {
        (file["filename"], file["hashes"]["sha256"]): yanks.get(file["yanked"], file["yanked"])
        for file in json.loads(path.read_text())["files"]
    }
