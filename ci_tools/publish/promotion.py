"""Promotes a release: publishes exactly the bytes that one index holds to others."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ci_tools.errors import InputError, Rejected
from ci_tools.index.file_names import project_and_version
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain.look import fetch, refuse_no_index
from ci_tools.index.maintain.marks import Selection, selection_of
from ci_tools.index.pages import IndexedFile, Link
from ci_tools.index.units import CORE, Item, JobEntry, Unit
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import sha256_of
from ci_tools.model.names import ProjectName
from ci_tools.publish import transaction
from ci_tools.publish.transaction import Shown


def promote(source: WheelIndex, targets: Sequence[WheelIndex], release: str, outside: Outside) -> tuple[Shown, ...]:
    """Publish exactly the bytes of a release in one index to others, as a stable release.

    Raises InputError for a release that may not become stable, Rejected if a file does not match its manifest.
    """
    named = selection_of(release)
    _refuse_nowhere(source, targets, named)
    ledger = Ledger(source.store, "")
    manifest = ledger.manifest(named.project)
    files, links = named.find(manifest)
    _refuse_unready(source, files, links)
    # As spelled in its files: `1.0`, even if the user writes `1.0.0`.
    version = project_and_version(min(files))[1].public
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        with outside.reporter.step(f"fetch {len(files)} files from {source.address}"):
            items = tuple(_item(source, file, Path(folder)) for file in files.values() if not file.variant)
            variants = tuple(_item(source, file, Path(folder)) for file in files.values() if file.variant)
        offers = ledger.offers(named.project, manifest.offers.get(version, ""))
        commit = next(iter(files.values())).commit
        unit = Unit(
            name=CORE,
            project=ProjectName(named.project),
            version=version,
            items=items,
            variants=variants,
            commit=commit,
            offers=offers,
        )
        what = f"{source.address} {named.project}=={version}"
        journals = outside.cache / "promotions" / hashlib.sha256(what.encode()).hexdigest()
        return transaction.publish(unit, targets, journals, outside.reporter)


def _refuse_nowhere(source: WheelIndex, targets: Iterable[WheelIndex], named: Selection) -> None:
    """Raise InputError if there is nothing to promote, or no other index to promote it to."""
    if not named.is_whole:
        msg = f"{named.file or named.version} is a part of a release, expected {named.project}=={named.version.public}"
        raise InputError(msg, hint="a release is promoted whole, as it was tried")
    if named.version.is_devrelease:
        msg = f"{named.project} {named.version} is a nightly, expected a release or a candidate for one"
        raise InputError(msg, hint="build its commit as a candidate: `fatwheel release --tag`")
    if source.address in {target.address for target in targets}:
        raise InputError(f"{source.address} has the release already, expected another index to promote it to")
    refuse_no_index(source)


def _refuse_unready(source: WheelIndex, files: Mapping[str, IndexedFile], links: Iterable[Link]) -> None:
    """Raise InputError if files are yanked, or of several candidates, which were never tried together."""
    yanked = sorted(name for name, file in files.items() if file.yanked is not None)
    if yanked:
        msg = f"{yanked[0]} is yanked in {source.address}, expected a release that is not"
        raise InputError(msg, hint="`fatwheel index unyank` takes that back")
    away = sorted(file.key for file in files.values() if file.lost or file.is_outside) + [link.at for link in links]
    if away:
        msg = f"{away[0]} is not in {source.address}, expected every file of the release there"
        raise InputError(msg, hint="`fatwheel index verify` says of each file what is wrong with it")
    newest = max(file.candidate for file in files.values())  # 0 for those of a stable release
    older = {name: file.candidate for name, file in files.items() if file.candidate != newest}
    if older:
        name = min(older)
        msg = f"{name} in {source.address} is of candidate {older[name]}, and others are of candidate {newest}"
        raise InputError(msg, hint=f"publish all files of candidate {newest}, or a new candidate with all of them")


def _item(source: WheelIndex, file: IndexedFile, folder: Path) -> Item:
    path = fetch(source, file.key, folder)
    bytes_of_it = (path, sha256_of(path), path.stat().st_size)
    item = Item(*bytes_of_it, _describe_wheel(file), file.folder, file.also, file.variant, file.origin, file.gpu)
    if item.sha256 != file.sha256:
        msg = f"{source.store.url(file.key)} has the sha256 {item.sha256}, expected {file.sha256}"
        raise Rejected(msg, hint="`fatwheel index repair` removes it from the pages")
    return item


def _describe_wheel(file: IndexedFile) -> JobEntry | None:
    if not file.name.endswith(".whl"):
        return None
    kind, accelerator = ("native", file.folder) if file.platform else ("pure", "")
    made = JobEntry(file.job, kind, file.platform, accelerator=accelerator)
    return made._replace(archs=file.archs, toolchain=file.toolchain)
