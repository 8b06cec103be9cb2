"""An index over the GitHub Releases of repositories: every page is in a folder, and the files stay on GitHub.

The folder keeps a ledger as any index does, so that a second project, or the same one later, can be added to it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from packaging.utils import NormalizedName, canonicalize_name, parse_wheel_filename

from ci_tools.catalog.accelerators import FOLDER
from ci_tools.errors import InputError, MachineError, nearest
from ci_tools.github.attested import SignedProvenance, find_provenances, find_remake
from ci_tools.github.client import Hub, found_or_none, printable
from ci_tools.index.file_names import project_and_version
from ci_tools.index.finder.data import DATA, RECIPES, Maker, recipes_data
from ci_tools.index.foreign.files import MAX_METADATA, MAX_READ, METADATA_SUFFIX, is_metadata_of, requires_python_in
from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import GENERIC, Directory, Manifest, dump_offers, is_project
from ci_tools.index.objects.store import FolderStore, content_of_bytes
from ci_tools.index.of_releases import Stock, UnitListing, read_listing, stock
from ci_tools.index.page_writer import Page
from ci_tools.index.pages import ROOT, IndexedFile, is_sealed
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from ci_tools.machine.http.client import open_session
from ci_tools.machine.http.policy import NoParts, TooLarge, innermost
from ci_tools.machine.remote_wheel import remote_wheel
from ci_tools.machine.storage import write_atomically
from ci_tools.model.edition import candidate_of
from ci_tools.model.request import Channel
from ci_tools.model.versions import parse_version
from ci_tools.publish.targets import notice
from ci_tools.publish.targets.github_release.assets import hash_asset, list_uploaded, read_assets, read_list

if TYPE_CHECKING:
    import requests
    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset


ROOTS = ("", "nightly/", "test/")  # the channels of an index
FORM = ".github/ISSUE_TEMPLATE/wheel.yml"  # the issue form that request.yml answers
FINDER_DATA = (b"finder({", b"recipes({")  # the starts of a finder's data, which has no seal
LIST = re.compile(r"fatwheel-[A-Za-z0-9-]+\.json")


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
    from ci_tools.publish.targets.github_release.release_pages import read_listings  # noqa: PLC0415 - only this verb needs it

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
    """Return the channels of a project that have pages, or get some; the root always has."""
    there = [root for root in ROOTS if not root or root in channels or Ledger(index.store, root).is_there()]
    return {root: channels.get(root, Stock({}, {})) for root in there}


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


def read_listings(hub: Hub, *, others: bool = False) -> tuple[tuple[str, UnitListing], ...]:
    """Return the lists of a repository's published releases, each with its channel of an index, newest first.

    Their files stay on GitHub, and those of a retracted release are yanked. A file that was deleted from its release is
    left out. Each says its repository, and each wheel whether it is attested there. With `others`, a wheel that no list
    names has one of its own. Raises MachineError if a list is damaged.
    """
    with hub.opened(anonymous=True) as repository:
        releases = hub.ask(lambda _: list(repository.get_releases()))
        public = [release for release in releases if not release.draft]  # a token that may write sees drafts too
        found = [one for release in public for one in _read_listings(hub, release, others=others)]
        wheels = {file.sha256 for _, one in found for file in one.files if file.name.endswith(".whl")}
        attested = find_provenances(hub, repository, wheels)
    return tuple((channel, _say_whose(one, hub.repository, wheels, attested)) for channel, one in found)


def _say_whose(
    one: UnitListing,
    repository: str,
    asked: Collection[str],
    attested: Mapping[str, tuple[SignedProvenance, ...]] | None,
) -> UnitListing:
    """Return a list with the repository of each file, whether GitHub keeps a provenance of it, and who remade it."""

    def said(sha256: str) -> str:
        return "" if attested is None or sha256 not in asked else "yes" if sha256 in attested else "no"

    def describe(file: IndexedFile) -> IndexedFile:
        remade = find_remake((attested or {}).get(file.sha256, ()))
        return file._replace(repository=repository, attested=said(file.sha256), remade=remade)

    return one._replace(files=tuple(map(describe, one.files)))


def _read_listings(hub: Hub, release: GitRelease, *, others: bool) -> Iterator[tuple[str, UnitListing]]:
    """Yield a release's lists, each with its channel, and report the wheels that no list names, or list them, too."""
    if not others and not any(asset.name.startswith("fatwheel-") for asset in release.assets):
        return
    there = list_uploaded(read_assets(hub, release))
    listings = [_read_listing(hub, release, there[name]) for name in sorted(filter(LIST.fullmatch, there))]
    named = {name for one in listings for name in (*one.aliases, *(file.name for file in one.files))}
    strangers = {name: asset for name, asset in there.items() if name.endswith(".whl") and name not in named}
    if strangers and not others:
        what = f"{len(strangers)} wheels of {printable(release.tag_name)} that no fatwheel-*.json lists"
        hub.outside.reporter.say(f"left out: {what}, such as {min(strangers)}")
    retracted = notice.notice_of(release.body or "")
    for one in listings:
        files = (_link_file(hub, file, there, release) for file in one.files if file.name in there)
        shown = tuple(file._replace(yanked=retracted.reason) if retracted else file for file in files)
        yield _channel_of(release, one), one._replace(files=shown)
    for one in read_strangers(hub, release, strangers) if others else ():
        yield f"{Channel.TEST}/" if release.prerelease else _channel_of(release, one), one


def _read_listing(hub: Hub, release: GitRelease, asset: GitReleaseAsset) -> UnitListing:
    """Return the content of a list; raise MachineError if it is damaged."""
    try:
        return read_listing(read_list(hub, asset), release.published_at.strftime("%Y-%m-%dT%H:%M:%SZ"))
    except ValueError as error:
        where = f"{asset.name} of {printable(release.tag_name)} in {hub.repository}"
        msg = f"{where} is damaged: {printable(str(error))}"
        raise MachineError(msg, hint="delete it there, and publish that version again") from error


def _link_file(hub: Hub, file: IndexedFile, there: Mapping[str, GitReleaseAsset], release: GitRelease) -> IndexedFile:
    """Return a file with its address; with METADATA only if exactly its bytes are in the release too."""
    beside = there.get(f"{file.name}{METADATA_SUFFIX}")
    digest = "" if beside is None else beside.digest or f"sha256:{hub.ask(lambda _: hash_asset(beside))}"
    return file._replace(
        at=there[file.name].browser_download_url,
        candidate=candidate_of(release.tag_name, project_and_version(file.name)[1]),
        metadata_sha256=file.metadata_sha256 if digest == f"sha256:{file.metadata_sha256}" else "",
    )


def _channel_of(release: GitRelease, listing: UnitListing) -> str:
    """Return a release's folder in an index; by its version, since its flags may have been changed."""
    version = parse_version(listing.version)
    if version.is_devrelease:
        return f"{Channel.NIGHTLY}/"
    return f"{Channel.TEST}/" if candidate_of(release.tag_name, version) else ""


# ---------------------------------------------------------------- wheels that no list names


DIGEST = re.compile("sha256:([0-9a-f]{64})")
ACCELERATOR = re.compile(r"(?:^|\.)(cpu|xpu|cu[0-9]{3,4}|rocm[0-9]+\.[0-9]+)")  # a part of a local version: 2.10.cu130
MEMBER = re.compile(r"[^/]+\.dist-info/METADATA")
FREE_THREADED = re.compile(r"cp[0-9]+t")
TORCH = re.compile(r"torch([0-9]+\.[0-9]+)")


def read_strangers(hub: Hub, release: GitRelease, assets: Mapping[str, GitReleaseAsset]) -> Iterator[UnitListing]:
    """Yield a list for each wheel of a release; report those that no index should have, with the reason.

    Raises MachineError if a wheel cannot be reached.
    """
    with open_session() as session:
        for name, asset in sorted(assets.items()):
            try:
                file = _describe(session, hub, asset, release)
            except ValueError as error:
                reason = printable(str(error))
                hub.outside.reporter.say(f"left out: {printable(name)} of {printable(release.tag_name)}: {reason}")
                continue
            project, version = project_and_version(name)
            yield UnitListing(project, version.public, (file,), ())


def _describe(session: requests.Session, hub: Hub, asset: GitReleaseAsset, release: GitRelease) -> IndexedFile:
    """Return a wheel as an index has it; raise ValueError if its name is wrong, or its METADATA, or it has no hash."""
    local = project_and_version(asset.name)[1].local or ""
    wrong = next((tag for tag in parse_wheel_filename(asset.name)[3] if FREE_THREADED.fullmatch(tag.interpreter)), None)
    if wrong:  # PEP 703 puts the t into the tag of the ABI
        msg = f"no Python has the tag {wrong.interpreter}, expected {wrong.interpreter[:-1]}-{wrong.interpreter}"
        raise ValueError(msg)
    digest = DIGEST.fullmatch(asset.digest or "")
    if digest is None:
        raise ValueError("GitHub has no sha256 of it")
    metadata = _read_metadata(session, hub, asset, digest[1])
    if not is_metadata_of(asset.name, metadata):
        raise ValueError("the project and version of its METADATA are not those of its name, and installers refuse it")
    return IndexedFile(
        name=asset.name,
        folder=_folder(local),
        sha256=digest[1],
        size=asset.size,
        uploaded=release.published_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        requires_python=requires_python_in(metadata),
        at=asset.browser_download_url,
        origin="added",
    )


def _folder(local: str) -> str:
    """Return the folder of an index for a local version: cu130torch2.10 for cu130sm89torch2.10.0; or the root."""
    kind, torch = ACCELERATOR.search(local), TORCH.search(local)
    folder = f"{kind[1]}{torch[0] if torch else ''}" if kind else ROOT
    return folder if FOLDER.fullmatch(folder) else ROOT


def _read_metadata(session: requests.Session, hub: Hub, asset: GitReleaseAsset, sha256: str) -> bytes:
    """Return a wheel's METADATA; it is kept, so that an index that is written every hour reads each wheel once."""
    kept = hub.outside.cache / "release-metadata" / sha256
    if kept.is_file():
        return kept.read_bytes()
    try:
        with remote_wheel(session, asset.browser_download_url, MAX_READ) as wheel:
            found = [one for one in wheel.archive.infolist() if MEMBER.fullmatch(one.filename)]
            if len(found) != 1 or found[0].file_size > MAX_METADATA:
                raise ValueError(f"it has {len(found)} METADATA, expected one of at most {MAX_METADATA:,} bytes")
            content = wheel.read(found[0])
    except (InputError, NoParts, TooLarge) as error:
        raise ValueError(str(error)) from error
    except OSError as error:
        msg = f"{printable(asset.browser_download_url)} cannot be read: {printable(innermost(error))}"
        raise MachineError(msg, hint="the same command goes on where this one stopped") from error
    kept.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(kept) as file:
        file.write(content)
    return content
