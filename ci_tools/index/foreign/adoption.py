"""Adopts an index that others filled: the files that its pages list, or its files if it has no pages, get manifests.

Until the user agrees, the index is only read; an adoption ends there if an installer would get another file from any
page afterwards. Then each project gets its manifest, and only when all have one are the pages written: an interrupted
adoption leaves the old pages, and the same command continues it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, overload

from packaging.utils import NormalizedName, canonicalize_name

from ci_tools.errors import InputError, Problem, RejectedInput, nearest
from ci_tools.index.file_names import version_of
from ci_tools.index.foreign.files import (
    METADATA_SUFFIX,
    Completed,
    ForeignLinks,
    complete,
    explain_link,
    merge_listings,
    resolve,
)
from ci_tools.index.foreign.guests import join, removed_files, store_metadata, unknown_files
from ci_tools.index.foreign.layout import Layout, Left, find_layout, is_list_of_files, is_page
from ci_tools.index.foreign.pages import Listed, links_elsewhere, read_links
from ci_tools.index.foreign.replay import replay
from ci_tools.index.foreign.strangers import Stranger, stranger_in
from ci_tools.index.ledger import OWN, Ledger
from ci_tools.index.manifest import Manifest, Root
from ci_tools.index.objects.store import FolderStore, content_of_bytes
from ci_tools.index.page_writer import WORKERS, map_concurrently
from ci_tools.index.pages import ROOT, IndexedFile
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside

MAX_NAMED = 20  # differences that a refusal names
NO_PAGE = "this page does not exist here, and our page has not this link; the old one stays in .fatwheel/replaced"


class Adopted(NamedTuple):
    """The adopted files of one project."""

    project: NormalizedName
    files: int  # that installers take, in a manifest or on a page
    new: int  # of these, not in a manifest yet
    unhashed: int  # new ones without a sha256 on their page: each is read completely, if it can be
    bytes: int  # their known sizes
    metadata: int  # new wheels without METADATA beside them: it is extracted from each
    links: int  # to what no installer takes


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

    found: ForeignLinks
    strangers: tuple[Stranger, ...]
    gone: Callable[[Manifest], frozenset[str]]  # the files of a manifest that were removed since they were listed
    views: tuple[tuple[str, tuple[Listed, ...]], ...]  # the links of each page, with its folder


class _Foreseen(NamedTuple):
    """The adoption of a project before it is done."""

    row: Adopted
    pages: int  # of others that list it
    left: tuple[Left, ...]
    changes: tuple[str, ...]  # what installers would get otherwise


# ---------------------------------------------------------------- the verb


def survey(index: WheelIndex, only: Collection[str], outside: Outside) -> Outline:
    """Return the changes that adopting an index, or only some of its projects, would make; write nothing.

    Raises InputError if there is nothing to adopt, or no such project, or if installers would get other files from it.
    """
    reads = isinstance(index.store, FolderStore)  # of a bucket, only pages are read: its files may be terabytes
    return _foresee(index, *_select_projects(index, only), only, outside, reads=reads)


def _foresee(
    index: WheelIndex,
    layout: Layout,
    projects: Sequence[NormalizedName],
    only: Collection[str],
    outside: Outside,
    *,
    reads: bool = False,
) -> Outline:
    """Read every page, and compare it with ours in its place; `reads` says whether files are read as well."""
    ledger = Ledger(index.store, "")
    with outside.reporter.step(f"read {index.address}") as step:
        found: list[_Foreseen] = []
        for one in map_concurrently(partial(_look_at, index, ledger, layout, reads), projects):
            found.append(one)
            step.count(len(found), len(projects), "projects")
        root = _root(index, ledger, only, layout)
        fronts, kept = _fronts(index, layout, root)
        step.result(f"{sum(one.row.files for one in found):,} files of {len(found):,} projects")
    _refuse_changes([change for one in found for change in one.changes])
    left = (*layout.left, *kept, *(left for one in found for left in one.left))
    return Outline(tuple(one.row for one in found), sum(one.pages for one in found) + len(fronts), left, root)


def _refuse_changes(changes: Sequence[str]) -> None:
    """Raise RejectedInput if installers would get other files from our pages than from those of others."""
    if changes:
        more = [f"and {len(changes) - MAX_NAMED:,} more of this kind"] if len(changes) > MAX_NAMED else []
        problems = [Problem("", change) for change in (*changes[:MAX_NAMED], *more)]
        hint = "nothing was changed; correct these pages, or adopt other projects with --project"
        raise RejectedInput(problems, hint=hint, page="how-to/adopt-an-index.md")


def adopt(index: WheelIndex, only: Collection[str], outside: Outside) -> Outline:
    """Adopt the files that an index lists, or only those of some projects; return the changes.

    Raises InputError as `survey` does; MachineError if the store fails, after which the same command continues.
    """
    ledger, rows, pages, unhashed = Ledger(index.store, ""), [], 0, []
    with index.store.alone():
        layout, projects = _select_projects(index, only)
        foreseen = _foresee(index, layout, projects, only, outside)
        with outside.reporter.step(f"adopt what {index.address} lists") as step, ThreadPoolExecutor(WORKERS) as pool:
            for row, count, left in map_concurrently(partial(_take_over, index, ledger, layout, pool), projects):
                rows.append(row)
                unhashed += left
                pages += count
                step.count(len(rows), len(projects), "projects")
            step.result(f"{sum(row.new for row in rows):,} files new")
        fronts, kept = _fronts(index, layout, foreseen.root)
        for front in fronts:
            _keep(index, front)
        with outside.reporter.step("write pages"):
            index.writer.show(ledger, _Manifests(ledger, projects), foreseen.root, layout.folders)
    return Outline(tuple(rows), pages + len(fronts), (*layout.left, *kept, *unhashed), foreseen.root)


def _look_at(
    index: WheelIndex,
    ledger: Ledger,
    layout: Layout,
    reads: bool,  # noqa: FBT001 - given by `partial`
    project: NormalizedName,
) -> _Foreseen:
    listed, before = _read(index, layout, project), ledger.manifest(project)
    new = unknown_files(before, listed.found)
    after = join(before, listed.found, new, listed.found.links, listed.gone(before), layout.folders)
    completed = [_complete(index, layout, file) for file in new] if reads else None
    away = [file for file in new if _is_away(file, layout)]
    left = [Left(one.link.at, one.why) for one in completed or () if one.link]
    return _Foreseen(
        _describe_adoption(before, after, new, completed, layout),
        len(listed.strangers),
        (*_disputed(listed.found), *(left if reads else (Left(file.key, explain_link(file)) for file in away))),
        tuple(replay(before, after, listed.views)),
    )


def _is_away(file: IndexedFile, layout: Layout) -> bool:
    """Return whether it is known, before any request, that a file cannot be read for its hash."""
    is_there = "://" in file.at or file.at.startswith("../") or file.key in layout.entries
    return not file.sha256 and not is_there


def _disputed(found: ForeignLinks) -> Iterator[Left]:
    counts = Counter(link.at for link in found.links)
    why = "its pages say different things of it: each keeps what it says"
    yield from (Left(at, why) for at, count in counts.items() if count > 1)


def _fronts(index: WheelIndex, layout: Layout, root: Root) -> tuple[list[Stranger], list[Left]]:
    """Return the front pages of others that ours will replace, and those that stay."""
    replaced, left = [], []
    for stranger in _strangers(index, layout.fronts) if root is Root.OWN else ():
        if is_list_of_files(stranger):
            left.append(Left(stranger.key, "it lists files itself: it stays, with a line for each new project"))
        else:
            replaced.append(stranger)
            left += (Left(f"{stranger.key}: {place}", NO_PAGE) for place in _links_lost(stranger, layout))
    return replaced, left


def _links_lost(stranger: Stranger, layout: Layout) -> tuple[str, ...]:
    """Return the links of a front page that ours does not have."""
    named = {left.where.partition("/")[0] for left in layout.left}
    try:
        return links_elsewhere(stranger.data, stranger.key, {*layout.pages, *layout.folders, *named})
    except ValueError:  # installers cannot read it either
        return ()


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
        raise InputError(f"{index.address} lists no project {unknown[0]}, {nearest(unknown[0], layout.pages)}")
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
    views: list[tuple[str, tuple[Listed, ...]]] = []
    base = index.store.url("")
    for folder, keys in layout.pages[project].items():
        files = [Listed(key.rpartition("/")[2], key) for key in keys if not is_page(key)]
        pages[folder] = files
        for stranger in _strangers(index, filter(is_page, keys)):
            there = layout.entries.__contains__
            found_on = read_links(stranger.data, stranger.key)
            links = tuple(link._replace(at=resolve(link.at, base, there)) for link in found_on)
            pages[folder] += links
            # Installers use the canonical name: a page in a folder with another spelling does not conflict with ours.
            if stranger.key.split("/")[-2] == project:
                strangers.append(stranger)
                views.append((folder, links))
    found, folders = merge_listings(project, pages, pages.keys()), [folder for folder, _ in views]
    gone = partial(removed_files, found=found, folders=folders, is_there=layout.entries.__contains__)
    return _OnPages(found, tuple(strangers), gone, tuple(views))


def _describe_adoption(
    before: Manifest, after: Manifest, new: Sequence[IndexedFile], completed: Sequence[Completed] | None, layout: Layout
) -> Adopted:
    """Return what adopting a project does; `completed` are its new files, if they have been read."""
    unhashed = [file for file in new if not file.sha256 and not _is_away(file, layout)]
    wheels = [file for file in new if file.name.endswith(".whl") and file.key in layout.entries]
    bare = sum(f"{file.key}{METADATA_SUFFIX}" not in layout.entries for file in wheels)
    sizes = (layout.entries[file.key].size for file in unhashed if file.key in layout.entries)
    files = _count_files(after)
    return Adopted(
        project=before.project,
        files=files,
        new=files - _count_files(before),
        unhashed=len(unhashed),
        bytes=sum(sizes),
        metadata=bare if completed is None else sum(bool(one.metadata) for one in completed),
        links=len(after.files) + len(after.links) - files,
    )


def _count_files(manifest: Manifest) -> int:
    """Return how many files of a project installers take."""
    return len(manifest.files) + sum(bool(version_of(link.name, manifest.project)) for link in manifest.links)


# ---------------------------------------------------------------- taking over


def _take_over(
    index: WheelIndex, ledger: Ledger, layout: Layout, pool: ThreadPoolExecutor, project: NormalizedName
) -> tuple[Adopted, int, list[Left]]:
    """Write the listed files of a project to its manifest, with the facts that its pages lack.

    Return what was adopted, how many pages list the project, and its files that stay links.
    """
    listed, before = _read(index, layout, project), ledger.manifest(project)
    new = unknown_files(before, listed.found)
    completed = tuple(pool.map(partial(_complete_and_store, index, layout), new))
    links = (*listed.found.links, *(one.link for one in completed if one.link))
    files = [one.file for one in completed if one.file]
    # Beside the project's page, as s3pypi puts them: such a tool then finds our files when it writes the page again.
    keys = [file.key for file in listed.found.files if not file.is_outside and not file.folder]
    place = project if keys and all(key.startswith(f"{project}/") for key in keys) else ""

    def change(manifest: Manifest) -> Manifest:
        after = join(manifest, listed.found, files, links, listed.gone(manifest), layout.folders)
        return after if manifest.files else after._replace(place=place)

    _, after = ledger.change_manifest(project, change)
    for stranger in listed.strangers:
        _keep(index, stranger)
    left = [*_disputed(listed.found), *(Left(one.link.at, one.why) for one in completed if one.link)]
    return _describe_adoption(before, after, new, completed, layout), len(listed.strangers), left


def _complete(index: WheelIndex, layout: Layout, file: IndexedFile) -> Completed:
    """Return a file with the facts that its page lacks."""
    entries = (layout.entries.get(file.key), layout.entries.get(f"{file.key}{METADATA_SUFFIX}"))
    return complete(file, index.store, "", *entries, {ROOT, *layout.folders})


def _complete_and_store(index: WheelIndex, layout: Layout, file: IndexedFile) -> Completed:
    """Return the same; its METADATA is written beside it."""
    return store_metadata(index.store, f"{file.key}{METADATA_SUFFIX}", _complete(index, layout, file))


def _keep(index: WheelIndex, stranger: Stranger) -> None:
    """Keep a copy of a page of others, and allow ours to replace it."""
    key = f"{stranger.key}page" if stranger.key.endswith("/") or not stranger.key else stranger.key  # one of a file
    index.store.put(f"{OWN}replaced/{key}", content_of_bytes(stranger.data), instead_of=None)
    index.writer.taken.add((stranger.key, stranger.found.tag))


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
