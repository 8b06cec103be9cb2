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
from ci_tools.publish.index.directory import Root
from ci_tools.publish.index.foreign.entries import join, store_metadata, unknown_files
from ci_tools.publish.index.foreign.files import METADATA_SUFFIX, Found, complete, merge_listings, resolve
from ci_tools.publish.index.foreign.layout import Layout, Left, find_layout, is_list_of_files, is_page
from ci_tools.publish.index.foreign.pages import Listed, parse_project_page
from ci_tools.publish.index.foreign.strangers import Stranger, stranger_in
from ci_tools.publish.index.ledger import OWN, Ledger
from ci_tools.publish.index.manifest import Manifest
from ci_tools.publish.index.page_writer import WORKERS, map_concurrently

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from packaging.utils import NormalizedName

    from ci_tools.machine.context import Outside
    from ci_tools.publish.index.foreign.files import Completed
    from ci_tools.publish.index.pages import IndexedFile
    from ci_tools.publish.index.wheel_index import WheelIndex


class Adopted(NamedTuple):
    """The adopted files of one project."""

    project: NormalizedName
    files: int  # in a manifest or on a page
    new: int  # of these, not in a manifest yet
    unhashed: int  # new ones without a sha256 on their page: each is read completely
    bytes: int  # their known sizes
    metadata: int  # new wheels without METADATA beside them: it is extracted from each
    links: int  # to other files than wheels and sdists


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
        layout, projects = _select_projects(index, only)
        rows, pages = [], 0
        for row, count in map_concurrently(partial(_look_at, index, ledger, layout), projects):
            rows.append(row)
            pages += count
            step.count(len(rows), len(projects), "projects")
        root = _root(index, ledger, only, layout)
        fronts, kept = _fronts(index, layout, root)
        step.result(f"{sum(row.files for row in rows):,} files of {len(rows):,} projects")
    return Outline(tuple(rows), pages + len(fronts), (*layout.left, *kept), root)


def adopt(index: WheelIndex, only: Collection[str], outside: Outside) -> Outline:
    """Adopt the files that an index lists, or only those of some projects; return the changes.

    Raises InputError as `survey` does; MachineError if the store fails, after which the same command continues.
    """
    ledger, rows, pages, hashless = Ledger(index.store, ""), [], 0, []
    with index.store.alone():
        layout, projects = _select_projects(index, only)
        root = _root(index, ledger, only, layout)
        with outside.reporter.step(f"adopt what {index.address} lists") as step, ThreadPoolExecutor(WORKERS) as pool:
            for row, count, left in map_concurrently(partial(_take_over, index, ledger, layout, pool), projects):
                rows.append(row)
                hashless += left
                pages += count
                step.count(len(rows), len(projects), "projects")
            step.result(f"{sum(row.new for row in rows):,} files new")
        fronts, kept = _fronts(index, layout, root)
        for front in fronts:
            _keep(index, front)
        with outside.reporter.step("write pages"):
            index.writer.show(ledger, _Manifests(ledger, projects), root, layout.folders)
    return Outline(tuple(rows), pages + len(fronts), (*layout.left, *kept, *hashless), root)


def _look_at(index: WheelIndex, ledger: Ledger, layout: Layout, project: NormalizedName) -> tuple[Adopted, int]:
    """Return the files of a project to adopt, and how many pages list them."""
    listed = _read(index, layout, project)
    return _describe_adoption(ledger.manifest(project), listed.found, layout), len(listed.strangers)


def _fronts(index: WheelIndex, layout: Layout, root: Root) -> tuple[list[Stranger], list[Left]]:
    """Return the front pages of others that ours will replace, and those that stay."""
    replaced, left = [], []
    for stranger in _strangers(index, layout.fronts) if root is Root.OWN else ():
        if is_list_of_files(stranger):
            left.append(Left(stranger.key, "it lists files itself: it stays, with a line for each new project"))
        else:
            replaced.append(stranger)
    return replaced, left


def _root(index: WheelIndex, ledger: Ledger, only: Collection[str], layout: Layout) -> Root:
    """Return the owner of the front pages afterwards: shared if projects of others stay."""
    if index.settings.root is not None:
        return index.settings.root
    if not only or set(map(canonicalize_name, only)) >= set(layout.pages):
        return Root.OWN
    return ledger.directory().root if ledger.is_there() else Root.SHARED


def _select_projects(index: WheelIndex, only: Collection[str]) -> tuple[Layout, tuple[NormalizedName, ...]]:
    """Return the index as listed, and the projects of it to adopt."""
    layout = find_layout(index)
    wanted = {canonicalize_name(name) for name in only}
    if not layout.pages:
        raise _nothing(index, layout)
    unknown = sorted(wanted - set(layout.pages))
    if unknown:
        msg = f"{index.address} lists no project {unknown[0]}, {nearest(unknown[0], layout.pages)}"
        raise InputError(msg)
    return layout, tuple(sorted(wanted or layout.pages))


def _nothing(index: WheelIndex, layout: Layout) -> InputError:
    msg = f"{index.address} lists no project, expected pages as PEP 503 or PEP 691 has them, or wheels"
    fronts = (key.rpartition("/")[0] for key in layout.entries if is_page(key))
    # The shallowest folder with a page and with pages below it is an index.
    below = [front for front in fronts if front and any(key.startswith(f"{front}/") for key in layout.entries)]
    address, mark, settings = index.address.partition("?")
    best = min(below, key=lambda front: (front.count("/"), front != "simple", front), default="")
    own = next((f"{place}: {why}" for place, why in layout.left), "")
    hint = f"try {address.rstrip('/')}/{best}{mark}{settings}" if best else own
    return InputError(msg, hint=hint)


def _strangers(index: WheelIndex, keys: Iterable[str]) -> tuple[Stranger, ...]:
    """Return those pages at some keys that others wrote."""
    return tuple(filter(None, (stranger_in(index.store, key) for key in keys)))


def _read(index: WheelIndex, layout: Layout, project: NormalizedName) -> _OnPages:
    """Return the files and links on the pages of a project."""
    pages: dict[str, list[Listed]] = {}
    strangers: list[Stranger] = []
    base = index.store.url("")
    for folder, keys in layout.pages[project].items():
        files = [Listed(key.rpartition("/")[2], key) for key in keys if not is_page(key)]
        pages[folder] = files
        for stranger in _strangers(index, filter(is_page, keys)):
            # Installers use the canonical name: a page in a folder with another spelling does not conflict with ours.
            strangers += [stranger] if stranger.key.split("/")[-2] == project else []
            links = _links(stranger)
            pages[folder] += [link._replace(at=resolve(link.at, base, layout.entries.__contains__)) for link in links]
    return _OnPages(merge_listings(project, pages, pages.keys()), tuple(strangers))


def _links(stranger: Stranger) -> tuple[Listed, ...]:
    try:
        return parse_project_page(stranger.data, stranger.key)
    except ValueError:  # installers cannot read it either
        return ()


def _describe_adoption(manifest: Manifest, found: Found, layout: Layout) -> Adopted:
    new = unknown_files(manifest, found)
    unhashed = [file for file in new if not file.sha256]
    bare = [file for file in new if file.name.endswith(".whl") and _is_bare(file, layout)]
    sizes = (layout.entries[file.key].size for file in unhashed if file.key in layout.entries)
    return Adopted(
        project=manifest.project,
        files=len(manifest.files) + len(new),
        new=len(new),
        unhashed=len(unhashed),
        bytes=sum(sizes),
        metadata=len(bare),
        links=len(found.links),
    )


def _is_bare(file: IndexedFile, layout: Layout) -> bool:
    return file.key in layout.entries and f"{file.key}{METADATA_SUFFIX}" not in layout.entries


# ---------------------------------------------------------------- taking over


def _take_over(
    index: WheelIndex, ledger: Ledger, layout: Layout, pool: ThreadPoolExecutor, project: NormalizedName
) -> tuple[Adopted, int, list[Left]]:
    """Write the listed files of a project to its manifest, with the facts that its pages lack.

    Return what was adopted, how many pages list the project, and its files without a hash.
    """
    listed, before = _read(index, layout, project), ledger.manifest(project)
    completed = tuple(pool.map(partial(_complete, index, layout), unknown_files(before, listed.found)))
    links = (*listed.found.links, *(one.link for one in completed if one.link))
    files = [one.file for one in completed if one.file]
    place = _place_of_files(project, listed.found.files)

    def change(manifest: Manifest) -> Manifest:
        after = join(manifest, listed.found, files, links, frozenset(), layout.folders)
        return after if manifest.files else after._replace(place=place)

    ledger.change_manifest(project, change)
    for stranger in listed.strangers:
        _keep(index, stranger)
    why = "it cannot be fetched for its hash: it stays a link without one"
    left = [Left(one.link.at, why) for one in completed if one.link]
    return _describe_adoption(before, listed.found, layout), len(listed.strangers), left


def _complete(index: WheelIndex, layout: Layout, file: IndexedFile) -> Completed:
    """Return a file with the facts that its page lacks; its METADATA is written beside it."""
    beside = f"{file.key}{METADATA_SUFFIX}"
    completed = complete(file, index.store, "", layout.entries.get(file.key), layout.entries.get(beside))
    return store_metadata(index.store, beside, completed)


def _place_of_files(project: NormalizedName, files: Iterable[IndexedFile]) -> str:
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

    def __init__(self, ledger: Ledger, projects: Sequence[NormalizedName]) -> None:
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
