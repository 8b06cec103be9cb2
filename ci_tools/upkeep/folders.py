"""The directory of an index, made again from its manifests and pages, where it is damaged or gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.index import ROOT, is_sealed
from ci_tools.manifest import GENERIC, Directory, Root, is_project
from ci_tools.model import FOLDER
from ci_tools.targets.foreign import projects_on
from ci_tools.targets.ledger import Ledger

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
    fronts = {folder: _pages(store, folder) for folder in sorted(filter(FOLDER.fullmatch, store.folders()))}
    ours = {key: page for pages in fronts.values() for key, page in pages.items() if is_sealed(page)}
    projects = projects.union(*(projects_on(page, key) for key, page in ours.items()))
    folders = {
        folder
        for folder, pages in fronts.items()
        if any(map(is_sealed, pages.values())) or any(_has_page(store, folder, project) for project in projects)
    }
    kept = [page for folder in folders for page in fronts[folder].values()]
    is_shared = not all(map(is_sealed, (*_pages(store, ROOT).values(), *kept)))
    return Directory(
        projects=frozenset(filter(is_project, projects)),
        folders=frozenset({GENERIC, *folders}),
        root=Root.SHARED if is_shared else Root.OWN,
    )


def _pages(store: Store, place: str) -> dict[str, bytes]:
    """Return the pages of a folder that are there, by their keys."""
    folder = f"{place}/" if place else ""
    read = {key: store.read(key) for key in (*store.page_keys(folder), f"{folder}index.json")}
    return {key: found[0] for key, found in read.items() if found}


def _has_page(store: Store, folder: str, project: str) -> bool:
    """Return whether a folder has a page of a project that we wrote."""
    return any(map(is_sealed, _pages(store, f"{folder}/{project}").values()))
