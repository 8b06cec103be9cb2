"""The layout of an index that others filled: which of its keys are pages, of which projects and folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import NormalizedName, canonicalize_name

from ci_tools.catalog.accelerators import FOLDER
from ci_tools.index.file_names import FILES, project_in
from ci_tools.index.foreign.files import PAGES
from ci_tools.index.foreign.guests import CHANNELS
from ci_tools.index.foreign.strangers import Stranger, lists_files
from ci_tools.index.ledger import OWN
from ci_tools.index.manifest import is_project
from ci_tools.index.objects.store import Entry
from ci_tools.index.pages import ROOT

if TYPE_CHECKING:
    from ci_tools.index.wheel_index import WheelIndex


class Left(NamedTuple):
    """A file, page or folder that stays as it is, and why."""

    where: str
    why: str


class Layout(NamedTuple):
    """An index that others filled, as its store lists it."""

    entries: Mapping[str, Entry]
    pages: Mapping[NormalizedName, Mapping[str, tuple[str, ...]]]  # keys of pages, by project and folder
    fronts: tuple[str, ...]  # keys of the pages that list projects
    folders: frozenset[str]  # accelerator folders with pages or files
    left: tuple[Left, ...]


def is_list_of_files(stranger: Stranger) -> bool:
    """Return whether a front page of others lists files itself; an unreadable page does not."""
    try:
        return lists_files(stranger)
    except ValueError:
        return False


# ---------------------------------------------------------------- the index as it is


def find_layout(index: WheelIndex) -> Layout:
    """Return the pages, folders and files in an index's listing."""
    entries = {entry.key: entry for entry in index.store.entries()}
    below = {key.partition(f"/{OWN}")[0] + "/" for key in entries if f"/{OWN}" in key}
    others = tuple({*CHANNELS, *below})
    # An empty object whose key ends in a slash is one that consoles create to show a folder.
    real = {key: one for key, one in entries.items() if one.size or (key and not key.endswith("/"))}
    own = {key: entry for key, entry in real.items() if not key.startswith((OWN, *others))}
    left = [
        Left(place, "an index of its own: adopt it by its own address")
        for place in sorted(others)
        if any(key.startswith(place) for key in entries)
    ]
    fronts: list[str] = []
    pages: dict[NormalizedName, dict[str, list[str]]] = {}
    deep = {key.split("/")[0] for key in own if is_page(key) and key.count("/") > 1}  # folders with pages below them
    unknown = set()
    for key in filter(is_page, own):
        folder, project = _place(key)
        if folder is None or (project in deep and not folder and not FOLDER.fullmatch(project)):
            unknown.add(key.partition("/")[0])
        elif not project:
            fronts.append(key)
        elif not is_project(canonicalize_name(project)):
            left.append(Left(key, "an index has a folder of that name"))
        else:
            pages.setdefault(canonicalize_name(project), {}).setdefault(folder, []).append(key)
    left += [Left(f"{name}/", "no accelerator's folder: its pages stay as they are") for name in sorted(unknown)]
    folders = {folder for project in pages.values() for folder in project} | {_place(key)[0] or "" for key in fronts}
    if not pages:
        pages, folders, nameless = _plain(own)
        left += [Left(key, "its name says no project that an index can have") for key in nameless]
    whole = {project: {folder: tuple(keys) for folder, keys in found.items()} for project, found in pages.items()}
    return Layout(own, whole, tuple(fronts), frozenset(filter(None, folders)), tuple(left))


def is_page(key: str) -> bool:
    """Return whether a key has the name of a page."""
    return key.rpartition("/")[2] in PAGES


def _place(key: str) -> tuple[str | None, str]:
    """Return the folder and the project of a page: "" for a page of projects, None for a folder that is no index."""
    parts = key.split("/")[:-1]
    if len(parts) > 2 or (len(parts) == 2 and not FOLDER.fullmatch(parts[0])):  # noqa: PLR2004 - cu130/demo/
        return None, ""
    if len(parts) == 1 and FOLDER.fullmatch(parts[0]):
        return parts[0], ""
    return (parts[0] if parts[1:] else ROOT), (parts[-1] if parts else "")


def _plain(entries: Mapping[str, Entry]) -> tuple[dict[NormalizedName, dict[str, list[str]]], set[str], list[str]]:
    """Return the files of an index without pages by project and folder; the folders; and files of unknown projects.

    They are those that pypiserver lists: of all folders, except hidden ones. The keys are those of the files: `_read`
    treats each as its own page.
    """
    pages: dict[NormalizedName, dict[str, list[str]]] = {}
    shown = [key for key in entries if key.endswith(FILES) and not any(part.startswith(".") for part in key.split("/"))]
    folders = {key.partition("/")[0] for key in shown if "/" in key and FOLDER.fullmatch(key.partition("/")[0])}
    nameless = []
    for key in shown:
        folder, project = key.partition("/")[0] if "/" in key else ROOT, project_in(key.rpartition("/")[2])
        if project is None or not is_project(project):
            nameless.append(key)
            continue
        for one in [folder] if folder in folders else [ROOT, *sorted(folders)]:
            pages.setdefault(project, {}).setdefault(one, []).append(key)
    return pages, folders, nameless
