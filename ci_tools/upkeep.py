"""What an index needs once it is published: to be read again and mended, files yanked, releases promoted."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci_tools import transaction
from ci_tools.errors import InputError, Rejected, nearest
from ci_tools.index import project_and_version
from ci_tools.release import CORE, Item, Made, Unit
from ci_tools.storage import sha256_of, write_atomically
from ci_tools.targets import releaseindex
from ci_tools.targets.github import GitHubTarget
from ci_tools.targets.ledger import OWN, Ledger
from ci_tools.targets.store import of_bytes
from ci_tools.targets.wheelindex import METADATA_SUFFIX, metadata_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from ci_tools.index import IndexedFile
    from ci_tools.manifest import Manifest
    from ci_tools.outside import Outside
    from ci_tools.targets.wheelindex import WheelIndex
    from ci_tools.transaction import Shown

__all__ = ["Flaw", "promote", "repair", "verify", "write_pages", "yank"]

CHANNELS = ("nightly/", "test/")  # indexes of their own below a stable one
GONE = "the file is gone"
DAMAGED = "the file has other bytes than its manifest says"
NO_METADATA = "no METADATA lies beside the file, or another one"
STALE = "the page is not what its manifest makes it"
UNLISTED = "no page lists it: a publisher was stopped, or is at work"


class Flaw(NamedTuple):
    """Something of an index that is not as its manifests say, and what was done about it."""

    key: str
    what: str
    done: str = ""


class Release(NamedTuple):
    """One version of a project, as a user names it: `demo==1.0`."""

    project: str
    version: Version

    def files(self, manifest: Manifest) -> dict[str, IndexedFile]:
        """Return its files, whatever their local versions; raise InputError where the index has none."""
        versions = {name: Version(project_and_version(name)[1].public) for name in manifest.files}
        found = {name: file for name, file in manifest.files.items() if versions[name] == self.version}
        if not found:
            known = nearest(str(self.version), map(str, set(versions.values()))) if versions else "it has none of it"
            msg = f"the index has no {self.project} {self.version}, {known}"
            raise InputError(msg)
        return found


def release_of(text: str) -> Release:
    """Return the release that a user names; raise InputError where it is no `PROJECT==VERSION`."""
    try:
        requirement = Requirement(text)
        (specifier,) = requirement.specifier
        version = Version(specifier.version)
    except (InvalidRequirement, InvalidVersion, ValueError):
        specifier = None
    if specifier is None or specifier.operator != "==" or requirement.extras or requirement.url or version.local:
        msg = f'"{text}" is no release, expected one such as demo==1.0'
        raise InputError(msg)
    return Release(canonicalize_name(requirement.name), version)


# ---------------------------------------------------------------- read again, and mended


def verify(index: WheelIndex, outside: Outside) -> tuple[Flaw, ...]:
    """Read an index whole, every file and every page, and return what disagrees with its manifests."""
    with outside.reporter.step(f"read {index.address}") as step:
        flaws = tuple(_flaws(index))
        step.result(f"{len(flaws)} flaws" if flaws else "all as it should be")
    return flaws


def repair(index: WheelIndex, outside: Outside, *, remove_unlisted: bool = False) -> tuple[Flaw, ...]:
    """Mend what `verify` finds, and return what was done about each flaw.

    A file that is gone or has other bytes is listed no longer, for its bytes cannot be made again. A file that no page
    lists stays, since a publisher may just be bringing it, unless `remove_unlisted` says that none is.
    """
    flaws = verify(index, outside)
    if not flaws:
        return ()
    lost = {flaw.key for flaw in flaws if flaw.what in {GONE, DAMAGED}}
    with index.store.alone(), outside.reporter.step(f"mend {index.address}"):
        ledger = Ledger(index.store, "")
        every = ledger.projects()
        directory = ledger.change_directory(lambda known: known._replace(projects=known.projects | every), anew=True)
        projects = sorted(directory.projects)
        changed = [ledger.change_manifest(name, lambda one: _without(one, lost), anew=True) for name in projects]
        index.show(ledger, [manifest for _, manifest in changed])
        return tuple(_mended(index, flaw, remove_unlisted=remove_unlisted) for flaw in flaws)


def _without(manifest: Manifest, lost: Collection[str]) -> Manifest:
    return manifest._replace(files={name: file for name, file in manifest.files.items() if file.key not in lost})


def _flaws(index: WheelIndex) -> Iterator[Flaw]:
    ledger = Ledger(index.store, "")
    directory = ledger.directory()
    manifests = [ledger.manifest(project) for project in sorted(directory.projects | ledger.projects())]
    for manifest in manifests:
        for file in manifest.files.values():
            yield from _file_flaws(index, file)
    pages = [page for one in manifests for page in index.pages(ledger, one, directory.folders)]
    pages += index.fronts("", directory)
    for page in pages:
        for key in page.keys:
            read = index.store.read(key)
            if read is None or read[0] != page.data:
                yield Flaw(key, STALE)
    known = {key for page in pages for key in page.keys}
    known |= {
        key for one in manifests for file in one.files.values() for key in (file.key, f"{file.key}{METADATA_SUFFIX}")
    }
    for key in index.store.listed():
        if key not in known and not key.startswith((OWN, *CHANNELS)):
            yield Flaw(key, UNLISTED)


def _file_flaws(index: WheelIndex, file: IndexedFile) -> Iterator[Flaw]:
    sha256 = index.sha256_at(file.key)
    if sha256 != file.sha256:
        yield Flaw(file.key, DAMAGED if sha256 else GONE)
    elif file.metadata_sha256 and index.sha256_at(f"{file.key}{METADATA_SUFFIX}") != file.metadata_sha256:
        yield Flaw(f"{file.key}{METADATA_SUFFIX}", NO_METADATA)


def _mended(index: WheelIndex, flaw: Flaw, *, remove_unlisted: bool) -> Flaw:
    if flaw.what == UNLISTED:
        if remove_unlisted:
            index.store.remove(flaw.key)
        return flaw._replace(done="removed" if remove_unlisted else "left: --remove-unlisted removes it")
    if flaw.what == NO_METADATA:
        with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
            wheel = _fetched(index, flaw.key.removesuffix(METADATA_SUFFIX), Path(folder))
            content = of_bytes(metadata_of(wheel)[0])
        index.store.put(flaw.key, content, instead_of=index.store.find(flaw.key))
    return flaw._replace(done="not listed any more" if flaw.what in {GONE, DAMAGED} else "written again")


def _fetched(index: WheelIndex, key: str, folder: Path) -> Path:
    """Bring one file of an index here."""
    path = folder / key.rpartition("/")[2]
    with write_atomically(path) as sink:
        for chunk in index.store.chunks(key):
            sink.write(chunk)
    return path


# ---------------------------------------------------------------- an index over the files of another place


def write_pages(address: str, project: str, out: Path, outside: Outside) -> tuple[Path, ...]:
    """Write an index of a project's GitHub Releases into a folder, and return its pages; the files stay on GitHub."""
    kind, _, repository = address.partition(":")
    if kind != "github" or not repository:
        msg = f'"{address}" has no releases to make an index of, expected github:OWNER/REPO'
        raise InputError(msg)
    pages = releaseindex.pages(GitHubTarget(repository, outside).linked(project))
    for name, content in pages.items():
        with write_atomically(out / name) as sink:
            sink.write(content)
    return tuple(out / name for name in sorted(pages))


# ---------------------------------------------------------------- yanked


def yank(index: WheelIndex, release: str, reason: str | None) -> tuple[str, ...]:
    """Mark every file of a release as yanked (PEP 592), or with None as not yanked any more; return their names."""
    named = release_of(release)

    def changed(manifest: Manifest) -> Manifest:
        marked = {name: file._replace(yanked=reason) for name, file in named.files(manifest).items()}
        return manifest._replace(files={**manifest.files, **marked})

    ledger = Ledger(index.store, "")
    with index.store.alone():
        _, manifest = ledger.change_manifest(named.project, changed)
        index.show(ledger, [manifest])
    return tuple(sorted(named.files(manifest)))


# ---------------------------------------------------------------- promoted


def promote(source: WheelIndex, targets: Sequence[WheelIndex], release: str, outside: Outside) -> tuple[Shown, ...]:
    """Publish the very bytes of a release that one index holds to others, as a stable release.

    Raises Rejected where a file is not what its manifest says.
    """
    named = release_of(release)
    ledger = Ledger(source.store, "")
    manifest = ledger.manifest(named.project)
    files = named.files(manifest)
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        with outside.reporter.step(f"fetch {len(files)} files from {source.address}"):
            items = tuple(_item(source, file, Path(folder)) for file in files.values() if not file.variant)
            variants = tuple(_item(source, file, Path(folder)) for file in files.values() if file.variant)
        offers = ledger.offers(named.project, manifest.offers.get(str(named.version), ""))
        version = str(named.version)
        unit = Unit(name=CORE, project=named.project, version=version, items=items, variants=variants, offers=offers)
        journals = outside.cache / "promotions" / hashlib.sha256(f"{source.address} {release}".encode()).hexdigest()
        return transaction.publish(unit, targets, journals, outside.reporter)


def _item(source: WheelIndex, file: IndexedFile, folder: Path) -> Item:
    path = _fetched(source, file.key, folder)
    item = Item(path, sha256_of(path), path.stat().st_size, _made(file), file.folder, file.also, file.variant)
    if item.sha256 != file.sha256:
        msg = f"{source.store.url(file.key)} has the sha256 {item.sha256}, expected {file.sha256}"
        raise Rejected(msg, hint="`fatwheel index repair` takes it out of the index")
    return item


def _made(file: IndexedFile) -> Made | None:
    if not file.name.endswith(".whl"):
        return None
    accelerator = file.folder if file.platform else ""
    return Made(
        job=file.job,
        kind="native" if file.platform else "pure",
        platform=file.platform,
        python="",
        torch="",
        accelerator=accelerator,
        archs=file.archs,
        toolchain=file.toolchain,
        owner="",
        covers=(),
    )
