"""Reads an index again: every file and every page, to compare them with the manifests."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.errors import InputError
from ci_tools.index.directory import folders_of
from ci_tools.index.file_names import project_and_version
from ci_tools.index.foreign.files import METADATA_SUFFIX
from ci_tools.index.ledger import RESTORE, Damaged, Ledger
from ci_tools.index.maintain.flaws import BROKEN, UNFINISHED, UNLISTED, IndexFlaw
from ci_tools.index.maintain.reading import file_flaws, front_flaws, page_flaws, read_file
from ci_tools.index.maintain.rebuild import directory_from_pages
from ci_tools.index.pages import VARIANTS
from ci_tools.index.wheel_index import keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet

    from packaging.utils import NormalizedName

    from ci_tools.index.directory import Directory
    from ci_tools.index.manifest import Manifest
    from ci_tools.index.wheel_index import WheelIndex
    from ci_tools.machine.context import Outside


class Look(NamedTuple):
    """An index as read: its flaws, and its directory and manifests."""

    flaws: tuple[IndexFlaw, ...]
    directory: Directory  # with every existing project and folder
    manifests: tuple[Manifest, ...]  # the readable ones
    generation: int  # the highest generation of its pages


def verify(index: WheelIndex, outside: Outside) -> tuple[IndexFlaw, ...]:
    """Read every file and every page of an index, and return everything that disagrees with its manifests.

    An unlisted file is a flaw only if one of our publishers noted it before. Raises InputError if there is no index.
    """
    refuse_no_index(index)
    return read(index, outside).flaws


def refuse_no_index(index: WheelIndex) -> None:
    """Raise InputError if no publisher has made an index here: nothing is created, changed or removed then."""
    ledger = Ledger(index.store, "")
    if not ledger.is_there() and not ledger.projects():
        msg = f"there is no index at {index.address}, expected {index.store.url(ledger.directory_key)}"
        raise InputError(msg, hint="name it as `fatwheel publish --to` does, or its nightly or test folder")


def read(index: WheelIndex, outside: Outside) -> Look:
    """Read an index, and report the result to the user."""
    with outside.reporter.step(f"read {index.address}") as step:
        look = look_at(index)
        verdict = f"{len(look.flaws)} flaws" if look.flaws else "no flaws"
        step.result("; ".join(filter(None, (verdict, _foreign(look.manifests)))))
    return look


def _foreign(manifests: Iterable[Manifest]) -> str:
    """Return how many files Fatwheel did not build, by their origin."""
    origins = [file.origin for manifest in manifests for file in manifest.files.values() if file.origin]
    counts = [f"{origins.count(origin)} {origin}" for origin in sorted(set(origins))]
    return f"not built by Fatwheel: {', '.join(counts)}" if counts else ""


def look_at(index: WheelIndex, only: AbstractSet[str] | None = None) -> Look:
    """Read an index; with `only`, of its files just those at some keys.

    If a manifest is damaged, its files are unknown, so that no file is reported as unlisted.
    """
    ledger = Ledger(index.store, "")
    known, flaws = inspect_directory(index, ledger)
    found = [_manifest(ledger, project) for project in sorted(known.projects)]
    manifests = tuple(one for one in found if not isinstance(one, IndexFlaw))
    directory = _complete_directory(known, manifests)
    if directory != known and not flaws:
        flaws.append(IndexFlaw(ledger.directory_key, UNFINISHED))
    flaws += (one for one in found if isinstance(one, IndexFlaw))
    is_known = not any(flaw.what.startswith(BROKEN) for flaw in flaws)
    files = [file for manifest in manifests for file in manifest.files.values()]
    flaws += file_flaws(index, (file for file in files if only is None or only & keys_of(file)))
    pages = [page for one in manifests for page in index.writer.pages(ledger, one, directory.folders, directory.root)]
    fronts = tuple(index.writer.fronts("", directory))
    looks = (page_flaws(index, pages), front_flaws(index, fronts, directory))
    named = {key for page in (*pages, *fronts) for key in page.keys}.union(*map(keys_of, files))
    flaws += (flaw for look in looks for flaw in look.flaws)
    flaws += leftovers(ledger, named) if is_known else ()
    return Look(tuple(flaws), directory, manifests, max(look.generation for look in looks))


def inspect_directory(index: WheelIndex, ledger: Ledger) -> tuple[Directory, list[IndexFlaw]]:
    """Return the directory, rebuilt if lost or damaged, with its missing projects added; and its flaws."""
    flaws, is_there = [], ledger.is_there()
    try:
        known = _directory(index, ledger) if is_there else directory_from_pages(index)
    except Damaged as error:
        flaws = [IndexFlaw(error.key, f"{BROKEN}: {error.why}")]
        known = directory_from_pages(index)
    missing = ledger.projects() - known.projects
    if (missing or not is_there) and not flaws:
        flaws = [IndexFlaw(ledger.directory_key, UNFINISHED)]
    return known._replace(projects=known.projects | missing), flaws


def _directory(index: WheelIndex, ledger: Ledger) -> Directory:
    """Return the directory; raise Damaged if two reads show damage, since one answer may be truncated."""
    with suppress(Damaged):
        return ledger.directory()
    read_file(index, ledger.directory_key, "?")
    return ledger.directory()


def manifest_of(ledger: Ledger, project: NormalizedName) -> Manifest:
    """Return the manifest of a project that the index is known to have; raise Damaged if it cannot be read."""
    key = ledger.manifest_key(project)
    if ledger.store.find(key) is None:  # whether or not the directory has the project: it may be lost too
        raise Damaged(ledger.store, key, "it is gone", hint=RESTORE)
    return ledger.manifest(project)


def _manifest(ledger: Ledger, project: NormalizedName) -> Manifest | IndexFlaw:
    """Return the manifest of a project, or a flaw if it cannot be read."""
    try:
        return manifest_of(ledger, project)
    except Damaged as error:
        return IndexFlaw(error.key, f"{BROKEN}: {error.why}")


def _complete_directory(known: Directory, manifests: Iterable[Manifest]) -> Directory:
    """Return a directory with every folder that a manifest names or a publisher began, all active."""
    folders = known.folders.union(known.filling, *map(folders_of, manifests))
    return known._replace(folders=folders, filling=frozenset())


# ---------------------------------------------------------------- files that no manifest names


def leftovers(ledger: Ledger, named: AbstractSet[str]) -> Iterator[IndexFlaw]:
    """Yield a flaw for every noted file that exists and is not in a manifest; any other unlisted file is of others.

    This includes a file that was at a noted key before the note: the publisher then puts its own file elsewhere.
    """
    noted = _read_note_times(ledger)
    keys = sorted(key for key in noted.keys() - named if _is_publishers(key) and ledger.store.find(key))
    times = {entry.key: entry.modified for entry in ledger.store.entries()} if keys else {}
    yield from (IndexFlaw(key, UNLISTED) for key in keys if times.get(key, "") >= noted[key])


def _read_note_times(ledger: Ledger) -> dict[str, str]:
    """Return the noted keys, and those of METADATA beside them, each with the time of its first note."""
    found: dict[str, str] = {}
    for entry in sorted(ledger.store.entries(ledger.notes), key=lambda entry: entry.modified):
        for key in ledger.read_note(entry.key):
            found.setdefault(key, entry.modified)
            found.setdefault(f"{key}{METADATA_SUFFIX}", entry.modified)
    return found


def _is_publishers(key: str) -> bool:
    """Whether publishers make files of such a name: wheels, sdists, their METADATA, documents of variants."""
    folder, _, name = key.removesuffix(METADATA_SUFFIX).rpartition("/")
    try:
        return bool(project_and_version(name))
    except ValueError:
        return folder == VARIANTS and name.endswith("-variants.json")


def forget_notes(index: WheelIndex, look: Look) -> None:
    """Remove the notes whose files are all gone or listed; none while a manifest is damaged, since it may list them."""
    if any(flaw.what.startswith(BROKEN) for flaw in look.flaws):
        return
    ledger = Ledger(index.store, "")
    named = {key for one in look.manifests for file in one.files.values() for key in keys_of(file)}
    left = {flaw.key for flaw in leftovers(ledger, named)}
    for note in tuple(index.store.listed(ledger.notes)):
        keys = ledger.read_note(note)
        if keys and keys.isdisjoint(left):
            index.store.remove(note)
