"""What an index keeps for itself: the files of each project, and which projects and folders there are.

The pages are made from these. Each has a generation, so that a page is never replaced by an older one.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools import index
from ci_tools.index import IndexedFile
from ci_tools.model import FOLDER
from ci_tools.release import Offer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "GENERIC",
    "Directory",
    "Manifest",
    "dumped_offers",
    "is_project",
    "parse_directory",
    "parse_manifest",
    "parse_offers",
]

SHA256 = re.compile(r"[0-9a-f]{64}")
PROJECT = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")  # as canonicalize_name leaves it
APART = re.compile(r"([0-9a-f]{16})?")  # the folder of a file that lies apart: the start of its sha256
PROPERTY = re.compile(r"[0-9a-z_]+ :: [0-9a-z_]+ :: [0-9a-z_.]+")  # PEP 825
GENERIC = "cpu"  # the folder of those who have no accelerator; always there
# The other fields of an entry are text.
KINDS: Mapping[str, type] = MappingProxyType(
    {"size": int, "candidate": int, "also": tuple, "archs": tuple, "variant": tuple}
)
TUPLES = tuple(name for name, kind in KINDS.items() if kind is tuple)


class Manifest(NamedTuple):
    """The files of one project in an index, by name."""

    project: str
    generation: int = 0
    files: Mapping[str, IndexedFile] = MappingProxyType({})
    offers: Mapping[str, str] = MappingProxyType({})  # version → hash of what it has for every combination

    def dumps(self) -> bytes:
        """Return the manifest as JSON, a file on each line."""
        offers = json.dumps([[version, self.offers[version]] for version in sorted(self.offers)])
        lines = (json.dumps(self.files[name]._asdict()) for name in sorted(self.files))
        head = f'{{"generation": {self.generation}, "offers": {offers}, "files": [\n'
        return (head + ",\n".join(lines) + "\n]}\n").encode()


class Directory(NamedTuple):
    """The projects of an index and its folders; a folder is filling until every project has its page there."""

    generation: int = 0
    projects: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset({GENERIC})
    filling: frozenset[str] = frozenset()

    def dumps(self) -> bytes:
        """Return the directory as JSON."""
        table = {name: sorted(getattr(self, name)) for name in ("projects", "folders", "filling")}
        return (json.dumps({"generation": self.generation, **table}, indent=0) + "\n").encode()


def parse_manifest(data: bytes, project: str) -> Manifest:
    """Read the manifest of a project; raise ValueError where it is none, or of another."""
    table = _table(data)
    files = [_entry(entry) for entry in table["files"]]
    strangers = [file.name for file in files if index.project_and_version(file.name)[0] != project]
    if strangers:
        msg = f"it lists {strangers[0]}"
        raise ValueError(msg)
    offers = {version: sha256 for version, sha256 in table.get("offers", ()) if SHA256.fullmatch(sha256)}
    return Manifest(project, table["generation"], {file.name: file for file in files}, offers)


def parse_directory(data: bytes) -> Directory:
    """Read the directory of an index; raise ValueError where it is none."""
    table = _table(data)
    sets = [table[name] for name in ("projects", "folders", "filling")]
    if not all(isinstance(name, str) for names in sets for name in names):
        msg = "it names something that is no text"
        raise ValueError(msg)
    directory = Directory(table["generation"], *map(frozenset, sets))
    folders = directory.folders | directory.filling
    strangers = [f"{name!r} as a project" for name in directory.projects if not is_project(name)]
    strangers += [f"{name!r} as a folder" for name in folders if not (name and FOLDER.fullmatch(name))]
    if strangers:
        msg = f"it has {min(strangers)}"
        raise ValueError(msg)
    return directory


def is_project(name: str) -> bool:
    """Whether an index can have a project of that name: a canonical one, that no folder has."""
    return PROJECT.fullmatch(name) is not None and FOLDER.fullmatch(name) is None


def dumped_offers(offers: Iterable[Offer]) -> bytes:
    """Return what a release has for every combination as JSON."""
    return json.dumps(list(offers), separators=(",", ":")).encode()


def parse_offers(data: bytes) -> tuple[Offer, ...]:
    """Read what a release has for every combination; nothing where that is not what is there."""
    try:
        rows = json.loads(data)
        offers = tuple(Offer(*row) for row in rows)
    except (ValueError, TypeError, RecursionError):
        return ()
    return offers if all(isinstance(text, str) for offer in offers for text in offer) else ()


def _table(data: bytes) -> dict[str, Any]:
    """Read a JSON object with a generation, of which every other value is a list; no page can hold half a character."""
    try:
        table = json.loads(data.decode())
        json.dumps(table, ensure_ascii=False).encode()
    except RecursionError:
        table = None
    if not isinstance(table, dict) or not isinstance(table.get("generation"), int):
        msg = "it has no generation"
        raise ValueError(msg)  # noqa: TRY004 - whatever is wrong with a file is one error
    if not all(isinstance(value, list) for name, value in table.items() if name != "generation"):
        msg = "it holds something that is no list"
        raise ValueError(msg)
    for name in ("files",) if "files" in table else ("projects", "folders", "filling"):
        table.setdefault(name, [])
    return table


def _entry(entry: object) -> IndexedFile:
    """Read one file of a manifest; raise ValueError where it is none."""
    if not isinstance(entry, dict) or not all(isinstance(entry.get(name, []), list) for name in TUPLES):
        msg = f"{entry} names no file"
        raise ValueError(msg)
    try:
        file = IndexedFile(**{**entry, **{name: tuple(entry.get(name, ())) for name in TUPLES}})
    except TypeError as error:
        raise ValueError(str(error)) from None
    kinds = {name: KINDS.get(name, str) for name in IndexedFile._fields}
    wrong = [name for name, kind in kinds.items() if not isinstance(getattr(file, name), kind)]
    if wrong and not (wrong == ["yanked"] and file.yanked is None):
        msg = f"{entry} says something else in {wrong}"
        raise ValueError(msg)
    folders = (file.folder, *file.also)
    is_placed = all(isinstance(folder, str) and FOLDER.fullmatch(folder) for folder in folders)
    if not is_placed or not APART.fullmatch(file.apart):
        msg = f"{file.name} lies in no folder of an index"
        raise ValueError(msg)
    if not SHA256.fullmatch(file.sha256) or not SHA256.fullmatch(file.metadata_sha256 or file.sha256):
        msg = f"{file.name} has a hash that is no sha256"
        raise ValueError(msg)
    if bool(file.variant) != bool(index.variant_label(file.name)) or not all(map(PROPERTY.fullmatch, file.variant)):
        msg = f"{file.name} needs {file.variant}, which is not what a wheel variant needs"
        raise ValueError(msg)
    return file
