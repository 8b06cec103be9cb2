"""What an index needs once it is published: to be read again and mended, files yanked, releases promoted."""

from __future__ import annotations

import hashlib
import re
import tempfile
import unicodedata
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from ci_tools import transaction
from ci_tools.errors import InputError, Rejected, nearest
from ci_tools.index import VARIANTS, project_and_version
from ci_tools.manifest import GENERIC, Directory
from ci_tools.model import FOLDER
from ci_tools.release import CORE, Item, Made, Unit
from ci_tools.storage import sha256_of, write_atomically
from ci_tools.targets.ledger import OWN, RESTORE, Damaged, Ledger
from ci_tools.targets.store import of_bytes
from ci_tools.targets.wheelindex import METADATA_SUFFIX, metadata_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from ci_tools.index import IndexedFile
    from ci_tools.manifest import Manifest
    from ci_tools.outside import Outside
    from ci_tools.targets.wheelindex import Page, WheelIndex
    from ci_tools.transaction import Shown

__all__ = ["CHANNELS", "Flaw", "Release", "promote", "refuse_unprintable", "release_of", "repair", "verify", "yank"]

CHANNELS = ("nightly/", "test/")  # indexes of their own below a stable one
GONE = "the file is gone"
DAMAGED = "the file has other bytes than its manifest says"
OTHER_SIZE = "its manifest gives the file another size"
NO_METADATA = "no METADATA lies beside the file, or another one"
STALE = "the page is not what its manifest makes it"
UNLISTED = "no page lists it: a publisher was stopped, or is at work"
UNFINISHED = "it lacks a project or a folder: a publisher was stopped, or is at work"
BROKEN = "it is damaged"
DONE = MappingProxyType({GONE: "not listed any more", DAMAGED: "not listed any more", UNLISTED: "removed"})
PUBLISHED = re.compile(r"([0-9a-f]{16}/)?(?P<file>[^/]+\.(whl|tar\.gz))(\.metadata)?")  # below a folder, or apart there
VARIANTS_FILE = re.compile(rf"{VARIANTS}/[^/]+-variants\.json")
FRONT = 2  # parts of the key of a folder's front page: cu130/index.json


class Flaw(NamedTuple):
    """Something of an index that is not as its manifests say, and what was done about it."""

    key: str
    what: str
    done: str = ""
    is_left: bool = False  # whether nothing could be done about it


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
    is_exact = specifier is not None and specifier.operator == "==" and not version.local
    if not is_exact or requirement.extras or requirement.url or requirement.marker:
        msg = f'"{text}" is no release, expected one such as demo==1.0'
        raise InputError(msg)
    return Release(canonicalize_name(requirement.name), version)


# ---------------------------------------------------------------- read again


class Look(NamedTuple):
    """An index as it was read: what disagrees with its manifests, and what they make of it."""

    flaws: tuple[Flaw, ...]
    directory: Directory  # with every project and folder that there is
    manifests: tuple[Manifest, ...]  # those that can be read
    generation: int  # the highest of its pages


def verify(index: WheelIndex, outside: Outside) -> tuple[Flaw, ...]:
    """Read an index whole, every file and every page, and return what disagrees with its manifests.

    Raises InputError where there is no index.
    """
    _refuse_no_index(index)
    return _read(index, outside).flaws


def _refuse_no_index(index: WheelIndex) -> None:
    """Raise InputError where no publisher has made an index: nothing is made, changed or removed there."""
    ledger = Ledger(index.store, "")
    if index.store.find(ledger.directory_key) is None and not ledger.projects():
        msg = f"there is no index at {index.address}, expected {index.store.url(ledger.directory_key)}"
        raise InputError(msg, hint="name it as `fatwheel publish --to` does, or its nightly or test folder")


def _read(index: WheelIndex, outside: Outside) -> Look:
    with outside.reporter.step(f"read {index.address}") as step:
        look = _look(index)
        step.result(f"{len(look.flaws)} flaws" if look.flaws else "all as it should be")
    return look


def _look(index: WheelIndex, only: AbstractSet[str] | None = None) -> Look:
    """Read an index; of its files, with `only` just those at some keys.

    Where a manifest is damaged, nobody knows what it lists, so that nothing is said to be unlisted.
    """
    ledger = Ledger(index.store, "")
    known, flaws = _directory(ledger)
    read = [_manifest(ledger, project) for project in sorted(known.projects)]
    manifests = tuple(one for one in read if not isinstance(one, Flaw))
    directory = _completed(known, manifests)
    if directory != known and not flaws:
        flaws.append(Flaw(ledger.directory_key, UNFINISHED))
    files = [file for manifest in manifests for file in manifest.files.values()]
    flaws += (one for one in read if isinstance(one, Flaw))
    is_known = not any(flaw.what.startswith(BROKEN) for flaw in flaws)
    flaws += (flaw for file in files if only is None or only & _keys(file) for flaw in _file_flaws(index, file))
    pages = [page for one in manifests for page in index.pages(ledger, one, directory.folders)]
    pages += index.fronts("", directory)
    stale, generation = _page_flaws(index, pages)
    named = {key for page in pages for key in page.keys}.union(*map(_keys, files))
    flaws += [*stale, *(_unlisted(index, named) if is_known else ())]
    return Look(tuple(flaws), directory, manifests, generation)


def _directory(ledger: Ledger) -> tuple[Directory, list[Flaw]]:
    """Return the directory, made again where it is damaged, with the projects that it lacks, and what is wrong."""
    flaws = []
    try:
        known = ledger.directory()
    except Damaged as error:
        flaws = [Flaw(error.key, f"{BROKEN}: {error.why}")]
        fronts = (key.split("/") for key in ledger.store.listed())
        folders = {place[0] for place in fronts if len(place) == FRONT and place[0] and place[1] == "index.json"}
        known = Directory(folders=frozenset({GENERIC, *filter(FOLDER.fullmatch, folders)}))
    missing = ledger.projects() - known.projects
    if missing and not flaws:
        flaws = [Flaw(ledger.directory_key, UNFINISHED)]
    return known._replace(projects=known.projects | missing), flaws


def _manifest(ledger: Ledger, project: str) -> Manifest | Flaw:
    """Return the manifest of a project, or that it cannot be read."""
    try:
        return ledger.manifest(project)
    except Damaged as error:
        return Flaw(error.key, f"{BROKEN}: {error.why}")


def _completed(known: Directory, manifests: Iterable[Manifest]) -> Directory:
    """Return a directory with every folder that a manifest names or a publisher began, as shown."""
    files = (file for manifest in manifests for file in manifest.files.values())
    needed = {folder for file in files for folder in (file.folder, *file.also) if folder}
    return known._replace(folders=known.folders | known.filling | needed, filling=frozenset())


def _file_flaws(index: WheelIndex, file: IndexedFile) -> Iterator[Flaw]:
    what = _file_flaw(index, file)
    if what:
        yield Flaw(file.key, what)
    elif file.metadata_sha256 and index.sha256_at(f"{file.key}{METADATA_SUFFIX}") != file.metadata_sha256:
        yield Flaw(f"{file.key}{METADATA_SUFFIX}", NO_METADATA)


def _file_flaw(index: WheelIndex, file: IndexedFile) -> str:
    sha256, size = index.sha256_and_size_at(file.key)
    if sha256 != file.sha256:
        return DAMAGED if sha256 else GONE
    return "" if size == file.size else OTHER_SIZE


def _page_flaws(index: WheelIndex, pages: Iterable[Page]) -> tuple[list[Flaw], int]:
    """Return the pages that are not what they should be, and the highest generation of those that are there."""
    flaws, highest = [], 0
    for key, data in ((key, page.data) for page in pages for key in page.keys):
        read = index.store.read(key)
        highest = max(highest, read[1].generation if read else 0)
        if read is None or read[0] != data:
            flaws.append(Flaw(key, STALE))
    return flaws, highest


def _unlisted(index: WheelIndex, named: AbstractSet[str]) -> Iterator[Flaw]:
    """Yield what lies there and is not named; other indexes below this one are read by their own addresses."""
    keys = tuple(index.store.listed())
    others = {key.partition(f"/{OWN}")[0] + "/" for key in keys if f"/{OWN}" in key}
    own = tuple({OWN, *CHANNELS, *others})
    yield from (Flaw(key, UNLISTED) for key in keys if key not in named and not key.startswith(own))


def _keys(file: IndexedFile) -> set[str]:
    return {file.key, f"{file.key}{METADATA_SUFFIX}"}


# ---------------------------------------------------------------- mended


def repair(index: WheelIndex, outside: Outside, *, remove_unlisted: bool = False) -> tuple[Flaw, ...]:
    """Mend what `verify` finds, and return what a second look finds done about each flaw.

    A file that is gone or has other bytes is listed no longer, for its bytes cannot be made again. A file that no page
    lists stays, since a publisher may just be bringing it, unless `remove_unlisted` says that none is; what no
    publisher could have put there stays in any case. A damaged manifest stays, and keeps its pages, until it is
    restored. Raises InputError where there is no index.
    """
    _refuse_no_index(index)
    with index.store.alone():
        look = _read(index, outside)
        if not look.flaws:
            return ()
        with outside.reporter.step(f"mend {index.address}"):
            _mend(index, look, remove_unlisted=remove_unlisted)
            left = frozenset(_look(index, {flaw.key for flaw in look.flaws}).flaws)
    return tuple(_mended(flaw, left, look.directory) for flaw in look.flaws)


def _mend(index: WheelIndex, look: Look, *, remove_unlisted: bool) -> None:
    ledger = Ledger(index.store, "")
    above, projects = look.generation, look.directory.projects
    ledger.change_directory(
        lambda known: known._replace(projects=known.projects | projects), above=above, damaged=look.directory
    )
    suspects = {flaw.key for flaw in look.flaws if flaw.what in {GONE, DAMAGED, OTHER_SIZE}}
    changed = [
        ledger.change_manifest(one.project, lambda now: _righted(index, now, suspects), above=above)[1]
        for one in look.manifests
    ]
    named = {key for manifest in changed for file in manifest.files.values() for key in _keys(file)}
    for flaw in look.flaws:
        if flaw.what == NO_METADATA and flaw.key in named:
            _put_metadata(index, flaw.key)
        elif flaw.what == UNLISTED and remove_unlisted and flaw.key not in named:
            _remove(index, flaw.key, look.directory)
    with suppress(Damaged):  # a folder that is filling waits for the page of that project, and is found so
        index.show(ledger, changed)


def _righted(index: WheelIndex, manifest: Manifest, suspects: AbstractSet[str]) -> Manifest:
    """Return a manifest without the suspects that are lost, each looked at once more, and with the sizes of others."""
    files = dict(manifest.files)
    for name, file in manifest.files.items():
        if file.key in suspects:
            sha256, size = index.sha256_and_size_at(file.key)
            files[name] = file._replace(size=size)
            if sha256 != file.sha256:
                del files[name]
    return manifest._replace(files=files)


def _put_metadata(index: WheelIndex, key: str) -> None:
    """Put a wheel's METADATA beside it, as the wheel has it."""
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        wheel = _fetched(index, key.removesuffix(METADATA_SUFFIX), Path(folder))
        content = of_bytes(metadata_of(wheel)[0])
    index.store.put(key, content, instead_of=index.store.find(key))


def _remove(index: WheelIndex, key: str, directory: Directory) -> None:
    if _is_publishers(key, directory):
        index.store.remove(key)


def _is_publishers(key: str, directory: Directory) -> bool:
    """Whether a publisher could have put a file there: in a folder of the index, or in one of its own below that."""
    first, _, below = key.partition("/")
    found = PUBLISHED.fullmatch(below if first in directory.folders | {VARIANTS} else key)
    try:
        return bool(found and project_and_version(found["file"])) or VARIANTS_FILE.fullmatch(key) is not None
    except ValueError:
        return False


def _mended(flaw: Flaw, left: AbstractSet[Flaw], directory: Directory) -> Flaw:
    """Return a flaw with what was done about it, or why nothing was."""
    if flaw not in left:
        return flaw._replace(done=DONE.get(flaw.what, "written again"))
    if flaw.what == UNLISTED:
        is_ours = _is_publishers(flaw.key, directory)
        why = "--remove-unlisted removes it" if is_ours else "no publisher puts such a file there"
    else:
        is_broken = flaw.what.startswith(BROKEN)
        why = RESTORE if is_broken else "mend it again when nothing is damaged and nobody publishes"
    return flaw._replace(done=f"left: {why}", is_left=True)


def _fetched(index: WheelIndex, key: str, folder: Path) -> Path:
    """Bring one file of an index here."""
    path = folder / key.rpartition("/")[2]
    with write_atomically(path) as sink:
        for chunk in index.store.chunks(key):
            sink.write(chunk)
    return path


# ---------------------------------------------------------------- yanked


def yank(index: WheelIndex, release: str, reason: str | None) -> tuple[str, ...]:
    """Mark every file of a release as yanked (PEP 592), or with None as not yanked any more; return their names.

    Raises InputError where there is no index, or no such release in it, and for a reason that no page can show.
    """
    named = release_of(release)
    refuse_unprintable(reason or "")
    _refuse_no_index(index)

    def changed(manifest: Manifest) -> Manifest:
        marked = {name: file._replace(yanked=reason) for name, file in named.files(manifest).items()}
        return manifest._replace(files={**manifest.files, **marked})

    ledger = Ledger(index.store, "")
    with index.store.alone():
        _, manifest = ledger.change_manifest(named.project, changed)
        index.show(ledger, [manifest])
    return tuple(sorted(named.files(manifest)))


def refuse_unprintable(reason: str) -> None:
    """Raise InputError for control characters, and for surrogates, which stand for bytes that are no UTF-8."""
    wrong = next((character for character in reason if unicodedata.category(character) in {"Cc", "Cs"}), "")
    if wrong:
        msg = f"--reason: it holds {wrong!a}, expected UTF-8 text without control characters"
        raise InputError(msg)


# ---------------------------------------------------------------- promoted


def promote(source: WheelIndex, targets: Sequence[WheelIndex], release: str, outside: Outside) -> tuple[Shown, ...]:
    """Publish the very bytes of a release that one index holds to others, as a stable release.

    Raises InputError for what is not to become a stable release, Rejected where a file is not what its manifest says.
    """
    named = release_of(release)
    _refuse_nowhere(source, targets, named)
    ledger = Ledger(source.store, "")
    manifest = ledger.manifest(named.project)
    files = named.files(manifest)
    _refuse_unready(source, files)
    # As its files have it, `1.0` where somebody asks for `1.0.0`.
    version = project_and_version(min(files))[1].public
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        with outside.reporter.step(f"fetch {len(files)} files from {source.address}"):
            items = tuple(_item(source, file, Path(folder)) for file in files.values() if not file.variant)
            variants = tuple(_item(source, file, Path(folder)) for file in files.values() if file.variant)
        offers = ledger.offers(named.project, manifest.offers.get(version, ""))
        commit = next(iter(files.values())).commit
        unit = Unit(
            name=CORE,
            project=named.project,
            version=version,
            items=items,
            variants=variants,
            commit=commit,
            offers=offers,
        )
        what = f"{source.address} {named.project}=={version}"
        journals = outside.cache / "promotions" / hashlib.sha256(what.encode()).hexdigest()
        return transaction.publish(unit, targets, journals, outside.reporter)


def _refuse_nowhere(source: WheelIndex, targets: Iterable[WheelIndex], named: Release) -> None:
    """Raise InputError where there is nothing to promote, or nowhere to promote it to."""
    if named.version.is_devrelease:
        msg = f"{named.project} {named.version} is a nightly, expected a release or a candidate for one"
        raise InputError(msg, hint="build its commit as a candidate: `fatwheel release --tag`")
    if source.address in {target.address for target in targets}:
        msg = f"{source.address} is where the release is, expected another index to promote it to"
        raise InputError(msg)
    _refuse_no_index(source)


def _refuse_unready(source: WheelIndex, files: Mapping[str, IndexedFile]) -> None:
    """Raise InputError where files are yanked, or of several candidates, which nobody has tried together."""
    yanked = sorted(name for name, file in files.items() if file.yanked is not None)
    if yanked:
        msg = f"{yanked[0]} is yanked in {source.address}, expected a release that is not"
        raise InputError(msg, hint="`fatwheel unyank` takes that back")
    newest = max(file.candidate for file in files.values())
    older = {name: file.candidate for name, file in files.items() if file.candidate != newest}
    if older:
        name = min(older)
        msg = f"{name} in {source.address} is of candidate {older[name]}, and others are of candidate {newest}"
        raise InputError(msg, hint=f"publish all files of candidate {newest}, or a new candidate with all of them")


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
