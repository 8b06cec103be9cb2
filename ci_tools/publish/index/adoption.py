"""Adopts an index that others filled: the files that its pages list, or its files if it has no pages, get manifests.

Until the user agrees, the index is only read. Then each project gets its manifest, and only when all have one are the
pages written: an interrupted adoption leaves the old pages, and the same command continues it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, overload

from packaging.utils import canonicalize_name

from ci_tools.errors import InputError, nearest
from ci_tools.machine.objects.store import content_of_bytes
from ci_tools.model.files import FOLDER
from ci_tools.publish.index.foreign_files import (
    FILES,
    METADATA_SUFFIX,
    PAGES,
    Found,
    complete,
    merge_listings,
    resolve,
)
from ci_tools.publish.index.foreign_pages import Listed, parse_project_page
from ci_tools.publish.index.guests import CHANNELS
from ci_tools.publish.index.ledger import OWN, Ledger
from ci_tools.publish.index.manifest import Manifest, Root, is_project
from ci_tools.publish.index.page_writer import (
    WORKERS,
    Stranger,
    join,
    lists_files,
    map_concurrently,
    store_metadata,
    stranger_in,
    unknown_files,
)
from ci_tools.publish.index.pages import ROOT, project_and_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ci_tools.machine.context import Outside
    from ci_tools.machine.objects.store import Entry
    from ci_tools.publish.index.foreign_files import Completed
    from ci_tools.publish.index.pages import IndexedFile
    from ci_tools.publish.index.wheel_index import WheelIndex

__all__ = ["Adopted", "Left", "Outline", "adopt", "survey"]


class Adopted(NamedTuple):
    """The adopted files of one project."""

    project: str
    files: int  # in a manifest or on a page
    new: int  # of these, not in a manifest yet
    unhashed: int  # new ones without a sha256 on their page: each is read completely
    bytes: int  # their known sizes
    metadata: int  # new wheels without METADATA beside them: it is extracted from each
    links: int  # to other files than wheels and sdists


class Left(NamedTuple):
    """A file, page or folder that stays as it is, and why."""

    where: str
    why: str


class Outline(NamedTuple):
    """The changes that adopting an index makes."""

    projects: tuple[Adopted, ...]
    pages: int  # pages of others that ours replace
    left: tuple[Left, ...]
    root: Root  # who owns the front pages afterwards

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to do."""
        return not self.pages and not any(project.new for project in self.projects)


class _Ground(NamedTuple):
    """An index that others filled, as its store lists it."""

    entries: Mapping[str, Entry]
    pages: Mapping[str, Mapping[str, tuple[str, ...]]]  # keys of pages, by project and folder
    fronts: tuple[str, ...]  # keys of the pages that list projects
    folders: frozenset[str]  # accelerator folders with pages or files
    left: tuple[Left, ...]


class _OnPages(NamedTuple):
    """The listed files of a project, and the pages of others that list them."""

    found: Found
    strangers: tuple[Stranger, ...]


# ---------------------------------------------------------------- the verb


def survey(index: WheelIndex, only: Collection[str], outside: Outside) -> Outline:
    """Return the changes that adopting an index, or only some of its projects, would make; write nothing.

    Raises InputError if there is nothing to adopt, or no such project.
    """
    ledger = Ledger(index.store, "")
    with outside.reporter.step(f"read {index.address}") as step:
        ground, projects = _select_projects(index, only)
        rows, pages = [], 0
        for row, count in map_concurrently(partial(_look_at, index, ledger, ground), projects):
            rows.append(row)
            pages += count
            step.progress(len(rows), len(projects))
        root = _root(index, ledger, only, ground)
        fronts, kept = _fronts(index, ground, root)
        step.result(f"{sum(row.files for row in rows):,} files of {len(rows):,} projects")
    return Outline(tuple(rows), pages + len(fronts), (*ground.left, *kept), root)


def adopt(index: WheelIndex, only: Collection[str], outside: Outside) -> Outline:
    """Adopt the files that an index lists, or only those of some projects; return the changes.

    Raises InputError as `survey` does; MachineError if the store fails, after which the same command continues.
    """
    ledger, rows, pages, hashless = Ledger(index.store, ""), [], 0, []
    with index.store.alone():
        ground, projects = _select_projects(index, only)
        root = _root(index, ledger, only, ground)
        with outside.reporter.step(f"adopt what {index.address} lists") as step, ThreadPoolExecutor(WORKERS) as pool:
            for row, count, left in map_concurrently(partial(_take_over, index, ledger, ground, pool), projects):
                rows.append(row)
                hashless += left
                pages += count
                step.progress(len(rows), len(projects))
            step.result(f"{sum(row.new for row in rows):,} files new")
        fronts, kept = _fronts(index, ground, root)
        for front in fronts:
            _keep(index, front)
        with outside.reporter.step("write pages"):
            index.writer.show(ledger, _Manifests(ledger, projects), root, ground.folders)
    return Outline(tuple(rows), pages + len(fronts), (*ground.left, *kept, *hashless), root)


def _look_at(index: WheelIndex, ledger: Ledger, ground: _Ground, project: str) -> tuple[Adopted, int]:
    """Return the files of a project to adopt, and how many pages list them."""
    listed = _read(index, ground, project)
    return _describe_adoption(ledger.manifest(project), listed.found, ground), len(listed.strangers)


def _fronts(index: WheelIndex, ground: _Ground, root: Root) -> tuple[list[Stranger], list[Left]]:
    """Return the front pages of others that ours will replace, and those that stay."""
    replaced, left = [], []
    for stranger in _strangers(index, ground.fronts) if root is Root.OWN else ():
        if _is_list(stranger):
            left.append(Left(stranger.key, "it lists files itself: it stays, with a line for each new project"))
        else:
            replaced.append(stranger)
    return replaced, left


def _is_list(stranger: Stranger) -> bool:
    try:
        return lists_files(stranger)
    except ValueError:
        return False


def _root(index: WheelIndex, ledger: Ledger, only: Collection[str], ground: _Ground) -> Root:
    """Return the owner of the front pages afterwards: shared if projects of others stay."""
    if index.settings.root is not None:
        return index.settings.root
    if not only or set(map(canonicalize_name, only)) >= set(ground.pages):
        return Root.OWN
    return ledger.directory().root if ledger.is_there() else Root.SHARED


def _select_projects(index: WheelIndex, only: Collection[str]) -> tuple[_Ground, tuple[str, ...]]:
    """Return the index as listed, and the projects of it to adopt."""
    ground = _ground(index)
    wanted = {canonicalize_name(name) for name in only}
    if not ground.pages:
        raise _nothing(index, ground)
    unknown = sorted(wanted - set(ground.pages))
    if unknown:
        msg = f"{index.address} lists no project {unknown[0]}, {nearest(unknown[0], ground.pages)}"
        raise InputError(msg)
    return ground, tuple(sorted(wanted or ground.pages))


def _nothing(index: WheelIndex, ground: _Ground) -> InputError:
    msg = f"{index.address} lists no project, expected pages as PEP 503 or PEP 691 has them, or wheels"
    fronts = (key.rpartition("/")[0] for key in ground.entries if _is_page(key))
    # The shallowest folder with a page and with pages below it is an index.
    below = [front for front in fronts if front and any(key.startswith(f"{front}/") for key in ground.entries)]
    address, mark, settings = index.address.partition("?")
    best = min(below, key=lambda front: (front.count("/"), front != "simple", front), default="")
    own = next((f"{place}: {why}" for place, why in ground.left), "")
    hint = f"try {address.rstrip('/')}/{best}{mark}{settings}" if best else own
    return InputError(msg, hint=hint)


# ---------------------------------------------------------------- the index as it is


def _ground(index: WheelIndex) -> _Ground:
    """Return the pages, folders and files in an index's listing."""
    entries = {entry.key: entry for entry in index.store.entries()}
    below = {key.partition(f"/{OWN}")[0] + "/" for key in entries if f"/{OWN}" in key}
    others = tuple({*CHANNELS, *below})
    own = {key: entry for key, entry in entries.items() if not key.startswith((OWN, *others)) and not _is_marker(entry)}
    left = [Left(place, "an index of its own: adopt it by its own address") for place in _present(others, entries)]
    fronts: list[str] = []
    pages: dict[str, dict[str, list[str]]] = {}
    deep = {key.split("/")[0] for key in own if _is_page(key) and key.count("/") > 1}  # folders with pages below them
    unknown = set()
    for key in filter(_is_page, own):
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
        pages, folders = _plain(own)
    whole = {project: {folder: tuple(keys) for folder, keys in found.items()} for project, found in pages.items()}
    return _Ground(own, whole, tuple(fronts), frozenset(filter(None, folders)), tuple(left))


def _present(places: Iterable[str], entries: Iterable[str]) -> list[str]:
    keys = tuple(entries)
    return sorted(place for place in places if any(key.startswith(place) for key in keys))


def _is_marker(entry: Entry) -> bool:
    """Return whether it is an empty object, which consoles create to show a folder."""
    return entry.size == 0 and (entry.key.endswith("/") or not entry.key)


def _is_page(key: str) -> bool:
    return key.rpartition("/")[2] in PAGES


def _place(key: str) -> tuple[str | None, str]:
    """Return the folder and the project of a page: "" for a page of projects, None for a folder that is no index."""
    parts = key.split("/")[:-1]
    if len(parts) > 2 or (len(parts) == 2 and not FOLDER.fullmatch(parts[0])):  # noqa: PLR2004 - cu130/demo/
        return None, ""
    if len(parts) == 1 and FOLDER.fullmatch(parts[0]):
        return parts[0], ""
    return (parts[0] if parts[1:] else ROOT), (parts[-1] if parts else "")


def _plain(entries: Mapping[str, Entry]) -> tuple[dict[str, dict[str, list[str]]], set[str]]:
    """Return the files of an index without pages, as a server lists them, by project and folder; and the folders.

    The keys are those of the files: `_read` treats each as its own page.
    """
    pages: dict[str, dict[str, list[str]]] = {}
    folders = {key.partition("/")[0] for key in entries if "/" in key and FOLDER.fullmatch(key.partition("/")[0])}
    for key in entries:
        project = _project_of(key)
        folder = key.partition("/")[0] if "/" in key else ROOT
        if (
            project is None
            or key.count("/") > 1
            or not (FOLDER.fullmatch(folder) or canonicalize_name(folder) == project)
        ):
            continue
        listing = [folder] if folder in folders else [ROOT, *sorted(folders)]
        for one in listing:
            pages.setdefault(project, {}).setdefault(one, []).append(key)
    return pages, folders


def _project_of(key: str) -> str | None:
    """Return the project of a file; None if it is not a wheel or sdist, or an index cannot have the project."""
    if not key.endswith(FILES):
        return None
    try:
        project = project_and_version(key.rpartition("/")[2])[0]
    except ValueError:
        return None
    return project if is_project(project) else None


def _strangers(index: WheelIndex, keys: Iterable[str]) -> tuple[Stranger, ...]:
    """Return those pages at some keys that others wrote."""
    return tuple(filter(None, (stranger_in(index.store, key) for key in keys)))


def _read(index: WheelIndex, ground: _Ground, project: str) -> _OnPages:
    """Return the files and links on the pages of a project."""
    pages: dict[str, list[Listed]] = {}
    strangers: list[Stranger] = []
    base = index.store.url("")
    for folder, keys in ground.pages[project].items():
        files = [Listed(key.rpartition("/")[2], key) for key in keys if not _is_page(key)]
        pages[folder] = files
        for stranger in _strangers(index, filter(_is_page, keys)):
            # Installers use the canonical name: a page in a folder with another spelling does not conflict with ours.
            strangers += [stranger] if stranger.key.split("/")[-2] == project else []
            links = _links(stranger)
            pages[folder] += [link._replace(at=resolve(link.at, base, ground.entries.__contains__)) for link in links]
    return _OnPages(merge_listings(project, pages, pages.keys()), tuple(strangers))


def _links(stranger: Stranger) -> tuple[Listed, ...]:
    try:
        return parse_project_page(stranger.data, stranger.key)
    except ValueError:  # installers cannot read it either
        return ()


def _describe_adoption(manifest: Manifest, found: Found, ground: _Ground) -> Adopted:
    new = unknown_files(manifest, found)
    unhashed = [file for file in new if not file.sha256]
    bare = [file for file in new if file.name.endswith(".whl") and _is_bare(file, ground)]
    sizes = (ground.entries[file.key].size for file in unhashed if file.key in ground.entries)
    return Adopted(
        project=manifest.project,
        files=len(manifest.files) + len(new),
        new=len(new),
        unhashed=len(unhashed),
        bytes=sum(sizes),
        metadata=len(bare),
        links=len(found.links),
    )


def _is_bare(file: IndexedFile, ground: _Ground) -> bool:
    return file.key in ground.entries and f"{file.key}{METADATA_SUFFIX}" not in ground.entries


# ---------------------------------------------------------------- taking over


def _take_over(
    index: WheelIndex, ledger: Ledger, ground: _Ground, pool: ThreadPoolExecutor, project: str
) -> tuple[Adopted, int, list[Left]]:
    """Write the listed files of a project to its manifest, with the facts that its pages lack.

    Return what was adopted, how many pages list the project, and its files without a hash.
    """
    listed, before = _read(index, ground, project), ledger.manifest(project)
    completed = tuple(pool.map(partial(_complete, index, ground), unknown_files(before, listed.found)))
    links = (*listed.found.links, *(one.link for one in completed if one.link))
    files = [one.file for one in completed if one.file]
    place = _place_of_files(project, listed.found.files)

    def change(manifest: Manifest) -> Manifest:
        after = join(manifest, listed.found, files, links, frozenset(), ground.folders)
        return after if manifest.files else after._replace(place=place)

    ledger.change_manifest(project, change)
    for stranger in listed.strangers:
        _keep(index, stranger)
    why = "it cannot be fetched for its hash: it stays a link without one"
    left = [Left(one.link.at, why) for one in completed if one.link]
    return _describe_adoption(before, listed.found, ground), len(listed.strangers), left


def _complete(index: WheelIndex, ground: _Ground, file: IndexedFile) -> Completed:
    """Return a file with the facts that its page lacks; its METADATA is written beside it."""
    beside = f"{file.key}{METADATA_SUFFIX}"
    completed = complete(file, index.store, "", ground.entries.get(file.key), ground.entries.get(beside))
    return store_metadata(index.store, beside, completed)


def _place_of_files(project: str, files: Iterable[IndexedFile]) -> str:
    """Return the folder of a project's files if they are beside its page, as s3pypi puts them, else "".

    A tool with this layout then finds our files too when it writes the page again.
    """
    keys = [file.key for file in files if not file.is_outside and not file.folder]
    return project if keys and all(key.startswith(f"{project}/") for key in keys) else ""


def _keep(index: WheelIndex, stranger: Stranger) -> None:
    """Keep a copy of a page of others, and allow ours to replace it."""
    index.store.put(f"{OWN}replaced/{_file_key(stranger.key)}", content_of_bytes(stranger.data), instead_of=None)
    index.writer.taken.add((stranger.key, stranger.found.tag))


def _file_key(key: str) -> str:
    """Return a key that ends in a file name, as every file's key does."""
    return f"{key}page" if key.endswith("/") or not key else key


class _Manifests(Sequence[Manifest]):
    """The manifests of some projects, each read when needed: those of a large index do not fit into memory."""

    def __init__(self, ledger: Ledger, projects: Sequence[str]) -> None:
        self.ledger, self.projects = ledger, projects

    @overload
    def __getitem__(self, index: int) -> Manifest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Manifest]: ...
    def __getitem__(self, index: int | slice) -> Manifest | Sequence[Manifest]:
        """Return one of them."""
        if isinstance(index, slice):
            return [self.ledger.manifest(project) for project in self.projects[index]]
        return self.ledger.manifest(self.projects[index])

    def __len__(self) -> int:
        """Return the number of manifests."""
        return len(self.projects)
