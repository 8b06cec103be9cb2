"""An index over a project's GitHub Releases: it has every page of an index in a folder; the files stay on GitHub.

The folder keeps a ledger as any index does, so that a second project, or the same one later, can be added to it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from ci_tools.errors import InputError
from ci_tools.machine.objects.store import FolderStore
from ci_tools.publish.index.directory import Directory
from ci_tools.publish.index.finder import DATA
from ci_tools.publish.index.ledger import Ledger
from ci_tools.publish.index.manifest import GENERIC, Manifest, dump_offers, is_project
from ci_tools.publish.index.of_releases import Stock, stock
from ci_tools.publish.index.pages import is_sealed
from ci_tools.publish.index.wheel_index import WheelIndex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packaging.utils import NormalizedName

    from ci_tools.machine.context import Outside
    from ci_tools.publish.index.page_writer import Page

__all__ = ["write_pages"]

ROOTS = ("", "nightly/", "test/")  # the channels of an index
FINDER_DATA = b"finder({"  # the start of a finder's data, which has no seal


def write_pages(address: str, project: str, out: Path, outside: Outside) -> tuple[Path, ...]:
    """Write the pages of a project's GitHub Releases into a folder, and return them.

    Raises InputError if the address names no releases, or if a file that is not ours is at the place of a page.
    """
    kind, _, repository = address.partition(":")
    if kind != "github" or not repository:
        msg = f'"{address}" does not name GitHub Releases, expected github:OWNER/REPO'
        raise InputError(msg)
    from ci_tools.github.client import Hub  # noqa: PLC0415 - only this verb needs it
    from ci_tools.publish.targets.github_release.listings import listings_of  # noqa: PLC0415 - see above

    name = canonicalize_name(project)
    if not is_project(name):
        msg = f"a project cannot be called {name}: an index has a folder of that name"
        raise InputError(msg)
    found = {root: stock(listings) for root, listings in listings_of(Hub(repository, outside), name).items()}
    index = WheelIndex(FolderStore(out, outside.reporter), order=0)
    shown = {root: found.get(root, Stock({}, {})) for root in ROOTS if root in found or _has_pages(index, root)}
    for root, has in shown.items():
        _refuse_foreign(index, root, name, has, out)
    with index.store.alone():
        pages = [page for root, has in shown.items() for page in _write(index, Ledger(index.store, root), name, has)]
    return tuple(sorted({out / key for page in pages for key in page.keys}))


def _has_pages(index: WheelIndex, root: str) -> bool:
    """Whether a channel has pages, or is the root, which a site always has."""
    return not root or Ledger(index.store, root).is_there()


def _write(index: WheelIndex, ledger: Ledger, project: NormalizedName, has: Stock) -> Iterator[Page]:
    """Write a project's entries of one channel, and yield the pages of it."""
    offers = {version: ledger.keep_offers(project, known) for version, known in has.offers.items() if known}
    change = Manifest(project, 0, has.files, offers)
    _, manifest = ledger.change_manifest(project, lambda now: now._replace(files=change.files, offers=change.offers))
    index.show(ledger, [manifest])
    yield from _pages(index, ledger, manifest)


def _pages(index: WheelIndex, ledger: Ledger, manifest: Manifest) -> Iterator[Page]:
    """Yield every page that shows a project: its own, and the front pages."""
    known = ledger.directory()
    named = {folder for file in manifest.files.values() for folder in file.folders if folder}
    projects, folders = known.projects | {manifest.project}, known.folders | known.filling | named | {GENERIC}
    yield from index.pages(ledger, manifest, folders)
    for other in sorted(projects - {manifest.project}) if folders != known.folders else ():
        yield from index.pages(ledger, ledger.manifest(other), folders - known.folders)
    yield from index.fronts(ledger.root, Directory(known.generation, projects, folders))


def _refuse_foreign(index: WheelIndex, root: str, project: NormalizedName, has: Stock, out: Path) -> None:
    """Raise InputError if a file that we did not write is at the place of a page."""
    ledger = Ledger(index.store, root)
    offers = {version: hashlib.sha256(dump_offers(known)).hexdigest() for version, known in has.offers.items()}
    keys = (key for page in _pages(index, ledger, Manifest(project, 0, has.files, offers)) for key in page.keys)
    for key in sorted(set(keys)):
        read = index.store.read(key)
        is_data = key.startswith(f"{root}{DATA}/") and read is not None and read[0].startswith(FINDER_DATA)
        if read is not None and not is_data and not is_sealed(read[0]):
            msg = f"{out / key} was not written by Fatwheel, or was changed since, and would be overwritten"
            raise InputError(msg, hint="name an empty folder with --out, or move that page away")
