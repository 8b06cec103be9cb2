"""Rebuilds a lost or damaged manifest, or the directory, from the pages and the files in the index.

Only pages with a valid seal are used. Facts that are on no page cannot be recovered, and are reported as unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, NamedTuple

from packaging.utils import NormalizedName

from ci_tools.catalog.accelerators import FOLDER
from ci_tools.index.file_names import project_and_version, variant_label
from ci_tools.index.finder.data import data_path
from ci_tools.index.foreign.files import rank_names
from ci_tools.index.foreign.pages import Listed, parse_project_page, projects_on
from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import GENERIC, Directory, Manifest, Root, is_project, parse_manifest
from ci_tools.index.objects.store import Store
from ci_tools.index.pages import ROOT, VARIANTS, IndexedFile, Link, is_sealed
from ci_tools.index.wheel_index import WheelIndex

APART = re.compile(r"[0-9a-f]{16}")
FINDER = re.compile(rb"finder\((.*)\);\s*", re.DOTALL)
KNOWN_TO_FINDER = ("platform", "archs", "toolchain", "commit", "origin")
DOCUMENT = re.compile(r".+-variants\.json")


class Rebuilt(NamedTuple):
    """A rebuilt manifest, and the facts that could not be recovered."""

    manifest: Manifest
    unknown: tuple[str, ...]


class _Found(NamedTuple):
    """The file at a place, as the pages of some folders list it."""

    key: str
    row: Listed
    folders: frozenset[str]
    rank: int


class Pages(NamedTuple):
    """The complete pages of a project: the rows of each folder, and the folders without one."""

    rows: Mapping[str, tuple[Listed, ...]]
    unread: tuple[str, ...]
    generation: int


def manifest_from_pages(index: WheelIndex, project: NormalizedName, folders: Iterable[str]) -> Rebuilt | None:
    """Return the manifest of a project from its own pages; None if none of them is complete.

    A file whose bytes are missing is kept as lost, so that no page lists it until they are back.
    """
    pages = _pages(index, project, folders)
    if not pages.rows:
        return None
    sizes = {entry.key: entry.size for entry in index.store.entries()}
    known = _finder_data(index.store, project)
    places = [(key, _richest(rows), frozenset(rows)) for key, rows in _group_by_place(pages).items()]
    ranks = rank_names(project, [row.name for _, row, _ in places])
    found = [_Found(*place, rank) for place, rank in zip(places, ranks, strict=True)]
    files = [_file(one, pages, sizes, known) for one in found if _is_file(one, project)]
    files = [_read_variant(index.store, file) for file in files]
    whole = [file for file in files if bool(file.variant) == bool(variant_label(file.name))]
    links = tuple(
        Link(only_in=tuple(sorted(one.folders)), rank=one.rank, **one.row._asdict())
        for one in sorted(found, key=lambda one: (one.row.name, one.key))
        if not _is_file(one, project) and not (one.folders == {VARIANTS} and DOCUMENT.fullmatch(one.row.name))
    )
    manifest = Manifest(project, pages.generation, links=links).add_files(whole)
    manifest = manifest._replace(offers=_offers(index, manifest), place=_new_place(whole))
    unknown = [*_unknown(index, manifest, pages), *(f"what {file.name} needs" for file in files if file not in whole)]
    with suppress(ValueError):  # raised for a page with values that no manifest may have
        return Rebuilt(parse_manifest(manifest.dumps(), project), tuple(unknown))
    return None


def _is_file(found: _Found, project: NormalizedName) -> bool:
    """Return whether a manifest can have it as a file; the links of others have no sha256, or other names."""
    try:
        return bool(found.row.sha256) and project_and_version(found.row.name)[0] == project
    except ValueError:
        return False


def _pages(index: WheelIndex, project: NormalizedName, folders: Iterable[str]) -> Pages:
    rows, unread, generation = {}, [], 0
    folders = {ROOT, *folders}
    for folder in sorted(folders | set(filter(FOLDER.fullmatch, index.store.folders()))):
        place, is_there = f"{folder}/{project}/" if folder else f"{project}/", False
        for key in (f"{place}index.json", *index.store.page_keys(place)):
            read = index.store.read(key)
            generation = max(generation, read[1].generation if read else 0)
            with suppress(ValueError, KeyError, TypeError):
                if read and folder not in rows and is_sealed(read[0]):
                    rows[folder] = parse_project_page(read[0], key)
            is_there = is_there or read is not None
        if folder not in rows and (is_there or folder in folders):
            unread.append(place)
    return Pages(rows, tuple(unread), generation)


def _group_by_place(pages: Pages) -> dict[str, dict[str, Listed]]:
    """Return the rows of each place on the pages, by the pages' folders."""
    found: dict[str, dict[str, Listed]] = {}
    for folder, rows in pages.rows.items():
        for row in rows:
            found.setdefault(row.at, {})[folder] = row
    return found


def _richest(rows: Mapping[str, Listed]) -> Listed:
    """Return the row with the most facts: JSON has the size and the time, HTML has neither."""
    return max(rows.values(), key=lambda row: sum(bool(value) for value in row))


def _file(
    found: _Found, pages: Pages, sizes: Mapping[str, int], known: Mapping[tuple[str, str], Mapping[str, Any]]
) -> IndexedFile:
    key, row, listed, rank = found
    facts = known.get((row.name, row.sha256), {})
    said = {name: facts[name] for name in KNOWN_TO_FINDER if name in facts}
    if "archs" in said:
        said["archs"] = tuple(said["archs"])
    file = IndexedFile(
        name=row.name,
        folder="",
        sha256=row.sha256,
        size=row.size or sizes.get(key, 0),
        uploaded=row.uploaded or facts.get("uploaded", ""),
        requires_python=row.requires_python,
        metadata_sha256=row.metadata_sha256,
        yanked=row.yanked,
        hashes=row.hashes,
        said=row.said,
        rank=rank,
        **said,
    )
    file = _assign_folders(_locate_file(file, key), listed, frozenset(pages.rows))
    return file._replace(lost="" if file.is_outside or key in sizes else "gone")


def _locate_file(file: IndexedFile, key: str) -> IndexedFile:
    """Return a file with its folder and separate folder, or with its other place."""
    *folders, last = key.split("/")
    folder = folders.pop(0) if folders and FOLDER.fullmatch(folders[0]) else ""
    apart = folders.pop(0) if folders and APART.fullmatch(folders[0]) else ""
    is_ours = not folders and last == file.name and "://" not in key
    return file._replace(folder=folder, apart=apart) if is_ours else file._replace(folder=folder, at=key)


def _assign_folders(file: IndexedFile, listed: frozenset[str], known: frozenset[str]) -> IndexedFile:
    """Return a file with the folders that list it, among those with readable pages."""
    if file.folder == GENERIC and "+" not in file.name:
        listed = listed - {VARIANTS}  # variants are always listed there
    if file.folder and file.folder in listed and ROOT not in listed:
        return file._replace(also=tuple(sorted(listed - {file.folder})))
    is_everywhere = not file.folder and known <= listed
    return file if is_everywhere else file._replace(only_in=tuple(sorted(listed)))


def _read_variant(store: Store, file: IndexedFile) -> IndexedFile:
    """Return a wheel variant with its properties, from the document beside its page."""
    label = variant_label(file.name)
    read = store.read(f"{VARIANTS}/{'-'.join(file.name.split('-')[:2])}-variants.json") if label else None
    if read is None:
        return file
    with suppress(ValueError, KeyError, TypeError, AttributeError):
        table = json.loads(read[0])["variants"][label]
        needs = (
            f"{space} :: {feature} :: {value}"
            for space, features in table.items()
            for feature, values in features.items()
            for value in values
        )
        return file._replace(variant=tuple(sorted(needs)))
    return file


def _finder_data(store: Store, project: NormalizedName) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the finder's data of a project's files, by their names and hashes."""
    read = store.read(data_path(project))
    found = FINDER.fullmatch(read[0]) if read else None
    with suppress(ValueError, KeyError, TypeError):
        listings = json.loads(found[1])["listings"] if found else ()
        return {(file["name"], file["sha256"]): file for listing in listings for file in listing["files"]}
    return {}


def _offers(index: WheelIndex, manifest: Manifest) -> dict[str, str]:
    """Return the stored offers of each version; they name files, and a file's name has its version."""
    ledger = Ledger(index.store, "")
    found: dict[str, str] = {}
    entries = index.store.entries(ledger.offers_key(manifest.project, "").removesuffix(".json"))
    for entry in sorted(entries, key=lambda entry: entry.modified):  # of two, the newest counts
        sha256 = entry.key.rpartition("/")[2].removesuffix(".json")
        names = {offer.file for offer in ledger.offers(manifest.project, sha256)} & manifest.files.keys()
        versions = {project_and_version(name)[1].public for name in names}
        found |= dict.fromkeys(versions, sha256)
    return found


def _new_place(files: Iterable[IndexedFile]) -> str:
    """Return the folder where an index that others began keeps a project's files."""
    places = {file.at.rpartition("/")[0] for file in files if file.at and not file.is_outside}
    place = next(iter(places)) if len(places) == 1 else ""
    return place if is_project(place) else ""


def _unknown(index: WheelIndex, manifest: Manifest, pages: Pages) -> Iterator[str]:
    """Yield the facts that could not be recovered, in a few words each."""
    if any(not file.origin for file in manifest.files.values()):
        yield "which jobs built its files"
    if index.address.partition("?")[0].endswith("/test"):
        yield "which candidate they are of"
    versions = {project_and_version(file.name)[1].public for file in manifest.files.values() if not file.origin}
    if versions - manifest.offers.keys():
        yield f"what {', '.join(sorted(versions - manifest.offers.keys()))} offered for each machine"
    yield from (f"what {place} listed" for place in pages.unread)
    yield from (f"where {file.name} is" for file in manifest.files.values() if file.lost)


# ---------------------------------------------------------------- the directory


def directory_from_pages(index: WheelIndex) -> Directory:
    """Return the projects and folders in the manifests and the sealed pages of an index.

    If a front page is not ours, the root is not only ours: pages of others are never overwritten.
    """
    store = index.store
    there = sorted({ROOT, *filter(FOLDER.fullmatch, store.folders())})
    fronts = {folder: _front_pages(store, folder) for folder in there}
    projects = Ledger(store, "").projects() | _sealed_projects(store, fronts.values())
    folders = {
        folder
        for folder, pages in fronts.items()
        if folder
        if any(map(is_sealed, pages.values())) or any(_has_page(store, folder, project) for project in projects)
    }
    kept = {key: page for folder in {ROOT, *folders} for key, page in fronts[folder].items()}
    root = _owner_of_fronts(kept, projects)
    return Directory(projects=projects, folders=frozenset({GENERIC, *folders}), root=root)


def _owner_of_fronts(fronts: Mapping[str, bytes], projects: AbstractSet[str]) -> Root:
    """Return the owner of the front pages: if pages of others have none of our lines, they were to stay unchanged."""
    others = {key: page for key, page in fronts.items() if not is_sealed(page)}
    has_line = False
    for key, page in others.items():
        with suppress(ValueError):
            has_line = has_line or not projects.isdisjoint(projects_on(page, key))
    return Root.OWN if not others else Root.SHARED if has_line else Root.KEPT


def _front_pages(store: Store, place: str) -> dict[str, bytes]:
    """Return the existing pages of a folder, by their keys."""
    folder = f"{place}/" if place else ""
    read = {key: store.read(key) for key in (*store.page_keys(folder), f"{folder}index.json")}
    return {key: found[0] for key, found in read.items() if found}


def _sealed_projects(store: Store, fronts: Iterable[Mapping[str, bytes]]) -> set[NormalizedName]:
    """Return our projects: those with one of our pages at the root, or on one of our front pages."""
    sealed = [(key, page) for pages in fronts for key, page in pages.items() if is_sealed(page)]
    listed = {name for key, page in sealed for name in projects_on(page, key)}
    shown = {name for name in filter(is_project, store.folders()) if _has_page(store, ROOT, name)}
    return {*filter(is_project, listed), *shown}


def _has_page(store: Store, folder: str, project: NormalizedName) -> bool:
    """Return whether a folder has a page of a project that we wrote."""
    return any(map(is_sealed, _front_pages(store, f"{folder}/{project}" if folder else project).values()))
