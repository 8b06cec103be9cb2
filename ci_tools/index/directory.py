"""The directory of an index: its projects and folders, and how a new folder is filled before it becomes active."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.catalog.accelerators import FOLDER
from ci_tools.formats.json_file import SEAL, digest
from ci_tools.index.manifest import GENERIC, is_project, read_table, refuse_changed
from ci_tools.model.names import Name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packaging.utils import NormalizedName

    from ci_tools.index.manifest import Manifest


class Root(Name):
    """The owner of the front pages of an index, which list its projects, at the root and in each folder."""

    OWN = "own"  # ours: written completely
    SHARED = "shared"  # shared: our lines are added, and every other byte stays
    KEPT = "kept"  # others': never changed


class Directory(NamedTuple):
    """The projects and folders of an index; a folder is filling until every project has its page there."""

    generation: int = 0
    projects: frozenset[NormalizedName] = frozenset()
    folders: frozenset[str] = frozenset({GENERIC})
    filling: frozenset[str] = frozenset()
    root: Root = Root.OWN

    def dumps(self) -> bytes:
        """Return the directory as JSON."""
        table: dict[str, object] = {name: sorted(getattr(self, name)) for name in ("projects", "folders", "filling")}
        if self.root is not Root.OWN:
            table["root"] = self.root.value
        said = json.dumps({"generation": self.generation, **table}, indent=0).encode().removesuffix(b"\n}")
        return said + f',\n"{SEAL}": "{digest(said)}"\n}}\n'.encode()


class DirectoryTable(NamedTuple):
    """The JSON of a directory."""

    generation: int
    projects: tuple[str, ...]
    folders: tuple[str, ...]
    filling: tuple[str, ...]
    root: Root = Root.OWN
    seal: str = ""


def parse_directory(data: bytes) -> Directory:
    """Read the directory of an index; raise ValueError if it is invalid."""
    refuse_changed(data)
    table = read_table(data, DirectoryTable)
    folders, filling = frozenset(table.folders), frozenset(table.filling)
    strangers = [f"{name!r} as a project" for name in table.projects if not is_project(name)]
    strangers += [f"{name!r} as a folder" for name in folders | filling if not (name and FOLDER.fullmatch(name))]
    if strangers:
        raise ValueError(f"it has {min(strangers)}")
    projects = filter(is_project, table.projects)
    return Directory(table.generation, frozenset(projects), folders, filling, table.root)


def slash(folder: str) -> str:
    """Return a folder's name as the start of a key."""
    return f"{folder}/" if folder else ""


def announce_folders(known: Directory, folders: Iterable[str], root: Root | None = None) -> Directory:
    """Return the directory with its new folders as filling."""
    return known._replace(filling=known.filling | (set(folders) - known.folders), root=root or known.root)


def activate_folders(known: Directory, basis: Directory, projects: set[NormalizedName]) -> Directory:
    """Return the directory with new projects, and with the folders active that now have a page of every project.

    If others have added projects or folders without pages meanwhile, nothing is activated yet.
    """
    if not covers(basis, known, projects):
        return known
    return known._replace(
        projects=known.projects | projects, folders=known.folders | basis.filling, filling=known.filling - basis.filling
    )


def covers(basis: Directory, known: Directory, projects: set[NormalizedName]) -> bool:
    """Return whether the pages written by one directory are all that another one needs of these projects."""
    has_folders = known.folders | known.filling <= basis.folders | basis.filling
    return has_folders and (not basis.filling or known.projects <= basis.projects | projects)


def folders_of(manifest: Manifest) -> set[str]:
    """Return every folder that a project's files name for themselves, except the root."""
    return {name for file in manifest.files.values() for name in file.folders if name}
