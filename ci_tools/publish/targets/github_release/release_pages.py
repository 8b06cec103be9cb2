"""An index over the GitHub Releases of repositories: every page is in a folder, and the files stay on GitHub.

The folder keeps a ledger as any index does, so that a second project, or the same one later, can be added to it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NoReturn

from packaging.utils import NormalizedName, canonicalize_name

from ci_tools.errors import InputError, nearest
from ci_tools.github.client import Hub, found_or_none, printable
from ci_tools.index.directory import Directory
from ci_tools.index.finder import DATA
from ci_tools.index.finder.recipes import RECIPES, Maker, recipes_data
from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import GENERIC, Manifest, dump_offers, is_project
from ci_tools.index.objects.store import FolderStore, content_of_bytes
from ci_tools.index.of_releases import Stock, UnitListing, stock
from ci_tools.index.pages import is_sealed
from ci_tools.index.wheel_index import WheelIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from ci_tools.index.page_writer import Page
    from ci_tools.machine.context import Outside

ROOTS = ("", "nightly/", "test/")  # the channels of an index
FORM = ".github/ISSUE_TEMPLATE/wheel.yml"  # the issue form that request.yml answers
FINDER_DATA = (b"finder({", b"recipes({")  # the starts of a finder's data, which has no seal


def write_pages(
    hubs: Sequence[Hub],
    projects: Sequence[str],
    out: Path,
    outside: Outside,
    *,
    others: bool = False,
    makers: Sequence[Maker] = (),
) -> tuple[Path, ...]:
    """Write the pages of projects over the GitHub Releases of repositories into a folder, and return them.

    Without `projects`, all that the releases have. Of one file name in two repositories, that of the first counts. With
    `others`, wheels that Fatwheel did not publish are listed, too. `makers` are the recipes that the finder names where
    there is no wheel. Raises InputError if no release has a file of a project, or if a file that is not ours is at the
    place of a page.
    """
    names = [canonicalize_name(project) for project in projects]
    for name in filter(lambda name: not is_project(name), names):
        raise InputError(f"a project cannot be called {name}: an index has a folder of that name")
    found = _collect(hubs, names, others=others)
    index = WheelIndex(FolderStore(out, outside.reporter), order=0)
    plans = [(name, root, has) for name, channels in found.items() for root, has in _shown(index, channels).items()]
    for name, root, has in plans:
        _refuse_foreign(index, root, name, has, out)
    recipes = {f"{root}{RECIPES}" for _, root, _ in plans} if makers else set()
    made_by = recipes_data(makers, _find_form(hubs)) if makers else b""
    with index.store.alone():  # a second run would write between
        for key in recipes:
            index.store.put(key, content_of_bytes(made_by), instead_of=index.store.find(key))
        pages = [page for name, root, has in plans for page in _write(index, Ledger(index.store, root), name, has)]
    return tuple(sorted(out / key for key in recipes.union(*(page.keys for page in pages))))


def _find_form(hubs: Sequence[Hub]) -> str:
    """Return the address of the form "I need this wheel" of the first repository that has it; "" if none does."""
    for hub in hubs:
        with hub.opened(anonymous=True) as repository:
            found = hub.ask(lambda _, get=repository.get_contents: found_or_none(lambda: get(FORM)))  # type: ignore[misc]
            if found is not None and not isinstance(found, list):
                return f"{repository.html_url}/issues/new?template={FORM.rpartition('/')[2]}"
    return ""


def _collect(
    hubs: Sequence[Hub], names: Sequence[NormalizedName], *, others: bool
) -> dict[NormalizedName, dict[str, Stock]]:
    """Return the files of each project by channel; raise InputError if there is none of a project."""
    from ci_tools.publish.targets.github_release.listings import read_listings  # noqa: PLC0415 - only this verb needs it

    found: dict[NormalizedName, dict[str, list[UnitListing]]] = {}
    seen: dict[str, tuple[str, str]] = {}  # the sha256 of each file name, and the repository that has it
    for hub in hubs:
        for channel, one in read_listings(hub, others=others):
            own = _first_ones(hub, one, seen)
            project = canonicalize_name(one.project)
            if own.files and is_project(project):
                found.setdefault(project, {}).setdefault(channel, []).append(own)
    missing = [name for name in names if name not in found]
    if missing or not found:
        _refuse_unknown(hubs, missing[0] if missing else "", found)
    return {
        name: {channel: stock(listings) for channel, listings in found[name].items()} for name in names or sorted(found)
    }


def _first_ones(hub: Hub, one: UnitListing, seen: dict[str, tuple[str, str]]) -> UnitListing:
    """Return a list without the files whose names an earlier repository has; report those of other bytes."""
    kept = []
    for file in one.files:
        sha256, where = seen.setdefault(file.name, (file.sha256, hub.repository))
        if sha256 == file.sha256 or where == hub.repository:
            kept.append(file)
        else:
            hub.outside.reporter.say(f"left out: {file.name} of {hub.repository}, {where} has another of that name")
    return one._replace(files=tuple(kept))


def _refuse_unknown(hubs: Sequence[Hub], name: str, known: Iterable[str]) -> NoReturn:
    where = ", ".join(hub.repository for hub in hubs)
    there = nearest(name, known) if known else "nor one of any other project"
    what = f'has a file of the project "{printable(name)}", {there}' if name else "has a file of any project"
    msg = f"no release of {where} {what}"
    raise InputError(msg, hint="the index lists the releases that `fatwheel publish` made; --others adds other wheels")


def _shown(index: WheelIndex, channels: Mapping[str, Stock]) -> dict[str, Stock]:
    """Return the channels of a project that have pages, or get some."""
    return {root: channels.get(root, Stock({}, {})) for root in ROOTS if root in channels or _has_pages(index, root)}


def _has_pages(index: WheelIndex, root: str) -> bool:
    """Return whether the channel has pages; the root always has."""
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
    yield from index.writer.pages(ledger, manifest, folders)
    for other in sorted(projects - {manifest.project}) if folders != known.folders else ():
        yield from index.writer.pages(ledger, ledger.manifest(other), folders - known.folders)
    yield from index.writer.fronts(ledger.root, Directory(known.generation, projects, folders))


def _refuse_foreign(index: WheelIndex, root: str, project: NormalizedName, has: Stock, out: Path) -> None:
    """Raise InputError if a file that we did not write is at the place of a page."""
    ledger = Ledger(index.store, root)
    offers = {version: hashlib.sha256(dump_offers(known)).hexdigest() for version, known in has.offers.items()}
    keys = {key for page in _pages(index, ledger, Manifest(project, 0, has.files, offers)) for key in page.keys}
    for key in sorted({*keys, f"{root}{RECIPES}"}):
        read = index.store.read(key)
        is_data = key.startswith(f"{root}{DATA}/") and read is not None and read[0].startswith(FINDER_DATA)
        if read is not None and not is_data and not is_sealed(read[0]):
            msg = f"{out / key} was not written by Fatwheel, or was changed since, and would be overwritten"
            raise InputError(msg, hint="name an empty folder with --out, or move that page away")
