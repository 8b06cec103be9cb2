"""The directory of an index, made again from its manifests and pages, where it is damaged or gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.index import ROOT, is_sealed
from ci_tools.manifest import GENERIC, Directory, Root, is_project
from ci_tools.model import FOLDER
from ci_tools.targets.ledger import Ledger
from ci_tools.upkeep.pages import listed_projects

if TYPE_CHECKING:
    from ci_tools.targets.store import Store
    from ci_tools.targets.wheelindex import WheelIndex

__all__ = ["directory_from_pages"]


def directory_from_pages(index: WheelIndex) -> Directory:
    """Return the projects and folders that the manifests and the sealed pages of an index show.

    Where a front page is not one of ours, the root is shared: others' pages are never written over.
    """
    store = index.store
    projects = Ledger(store, "").projects()
    fronts = {folder: _fronts(store, folder) for folder in sorted(filter(FOLDER.fullmatch, store.folders()))}
    ours = [page for pages in fronts.values() for page in pages if is_sealed(page)]
    projects = projects.union(*map(listed_projects, ours))
    folders = {
        folder
        for folder, pages in fronts.items()
        if any(map(is_sealed, pages)) or any(_is_ours(store, folder, project) for project in projects)
    }
    kept = [page for folder in folders for page in fronts[folder]]
    is_shared = not all(map(is_sealed, (*_fronts(store, ROOT), *kept)))
    return Directory(
        projects=frozenset(filter(is_project, projects)),
        folders=frozenset({GENERIC, *folders}),
        root=Root.SHARED if is_shared else Root.OWN,
    )


def _fronts(store: Store, folder: str) -> list[bytes]:
    """Return the front pages of a folder that are there."""
    place = f"{folder}/" if folder else ""
    read = (store.read(key) for key in dict.fromkeys((*store.page_keys(place), f"{place}index.json")))
    return [found[0] for found in read if found]


def _is_ours(store: Store, folder: str, project: str) -> bool:
    read = store.read(f"{folder}/{project}/index.json")
    return read is not None and is_sealed(read[0])
