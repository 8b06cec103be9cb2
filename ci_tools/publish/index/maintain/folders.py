"""Rebuilds a lost or damaged directory of an index from its manifests and pages."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from ci_tools.model.files import FOLDER
from ci_tools.publish.index.foreign_pages import projects_on
from ci_tools.publish.index.ledger import Ledger
from ci_tools.publish.index.manifest import (
    GENERIC,
    Directory,
    Root,
    is_project,
)
from ci_tools.publish.index.pages import ROOT, is_sealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from ci_tools.machine.objects.store import Store
    from ci_tools.publish.index.wheel_index import WheelIndex

__all__ = ["directory_from_pages"]


def directory_from_pages(index: WheelIndex) -> Directory:
    """Return the projects and folders in the manifests and the sealed pages of an index.

    If a front page is not ours, the root is not only ours: pages of others are never overwritten.
    """
    store = index.store
    fronts = {folder: _pages(store, folder) for folder in sorted({ROOT, *filter(FOLDER.fullmatch, store.folders())})}
    projects = Ledger(store, "").projects() | _projects(store, fronts.values())
    folders = {
        folder
        for folder, pages in fronts.items()
        if folder
        if any(map(is_sealed, pages.values())) or any(_has_page(store, folder, project) for project in projects)
    }
    kept = {key: page for folder in {ROOT, *folders} for key, page in fronts[folder].items()}
    return Directory(
        projects=frozenset(filter(is_project, projects)),
        folders=frozenset({GENERIC, *folders}),
        root=_root(kept, projects),
    )


def _root(fronts: Mapping[str, bytes], projects: AbstractSet[str]) -> Root:
    """Return the owner of the front pages: if pages of others have none of our lines, they were to stay unchanged."""
    others = {key: page for key, page in fronts.items() if not is_sealed(page)}
    has_line = False
    for key, page in others.items():
        with suppress(ValueError):
            has_line = has_line or not projects.isdisjoint(projects_on(page, key))
    return Root.OWN if not others else Root.SHARED if has_line else Root.KEPT


def _pages(store: Store, place: str) -> dict[str, bytes]:
    """Return the existing pages of a folder, by their keys."""
    folder = f"{place}/" if place else ""
    read = {key: store.read(key) for key in (*store.page_keys(folder), f"{folder}index.json")}
    return {key: found[0] for key, found in read.items() if found}


def _projects(store: Store, fronts: Iterable[Mapping[str, bytes]]) -> set[str]:
    """Return our projects: those with one of our pages at the root, or on one of our front pages."""
    sealed = [(key, page) for pages in fronts for key, page in pages.items() if is_sealed(page)]
    listed = {name for key, page in sealed for name in projects_on(page, key)}
    return listed | {name for name in store.folders() if is_project(name) and _has_page(store, ROOT, name)}


def _has_page(store: Store, folder: str, project: str) -> bool:
    """Return whether a folder has a page of a project that we wrote."""
    return any(map(is_sealed, _pages(store, f"{folder}/{project}" if folder else project).values()))
