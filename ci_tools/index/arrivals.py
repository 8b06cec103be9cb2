"""The files that arrive in an index: their entries, the reasons why an index refuses one, and what they replace."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from ci_tools.catalog.accelerators import FOLDER
from ci_tools.errors import Problem, Rejected
from ci_tools.formats.wheel import open_wheel
from ci_tools.index.file_names import project_and_version, variant_label
from ci_tools.index.manifest import Manifest, is_project
from ci_tools.index.objects.store import Content, content_of_file, utc
from ci_tools.index.pages import IndexedFile
from ci_tools.index.units import Item, Unit
from ci_tools.index.wheel_facts import drivers_of
from ci_tools.model.request import Channel
from ci_tools.model.versions import parse_version


class Arrival(NamedTuple):
    """One file to publish: its entry in the index, its content, and its METADATA."""

    entry: IndexedFile
    content: Content
    metadata: bytes


def place_apart(entry: IndexedFile) -> IndexedFile:
    """Return a file in a separate folder, since other files are at its place."""
    return entry._replace(apart=entry.sha256[:16], at="")


def add_arrivals(manifest: Manifest, arrivals: Iterable[Arrival], unit: Unit, nightlies: int) -> Manifest:
    """Return a manifest with new files: it keeps the newest nightlies only, and one candidate of a version."""
    whole = manifest.add_files(arrival.entry for arrival in arrivals)
    if unit.edition.channel is Channel.NIGHTLY:
        newest = newest_versions((file.name for file in whole.files.values() if not file.origin), nightlies)
        kept = {key: one for key, one in whole.files.items() if one.origin or public_version(one.name) in newest}
        return whole._replace(files=kept)  # with all files of others, which only they may remove
    older = {key: file for key, file in whole.files.items() if 0 < file.candidate < (unit.edition.candidate or 0)}
    wanted = parse_version(unit.version)
    replaced = {key for key, file in older.items() if parse_version(public_version(file.name)) == wanted}
    return whole._replace(files={key: file for key, file in whole.files.items() if key not in replaced})


def public_version(name: str) -> str:
    """Return the version of a file without its local part."""
    return project_and_version(name)[1].public


def newest_versions(names: Iterable[str], count: int) -> set[str]:
    """Return the newest versions among some files, without local parts."""
    return set(sorted(set(map(public_version, names)), key=parse_version, reverse=True)[:count])


# ---------------------------------------------------------------- arrivals


def find_problems(project: str, items: Iterable[Item]) -> Iterator[Problem]:
    """Yield the reasons why any index refuses files: names of another project, or invalid folders."""
    if not is_project(project):
        yield Problem("", f"a project cannot be called {project}: an index has a folder of that name")
    for item in items:
        yield from _item_problems(project, item)
    for name, count in Counter(item.name for item in items).items():
        if count > 1:
            yield Problem("", f"{name} is to be published {count} times at once, expected once")


def _item_problems(project: str, item: Item) -> Iterator[Problem]:
    for folder in (item.folder, *item.also):
        if not FOLDER.fullmatch(folder):
            yield Problem("", f"{item.name} cannot go to {folder!r}, expected a folder such as cu130")
    try:
        whose = project_and_version(item.name)[0]
    except ValueError as error:
        yield Problem("", f"{item.name!r} is not the name of a wheel or an sdist: {error}")
        return
    if whose != project:
        yield Problem("", f"{item.name} is a file of {whose}, expected one of {project}")
    if variant_label(item.name) and not item.variant:
        yield Problem("", f"{item.name} has the name of a wheel variant, and its properties are not known")


def arrival_of(item: Item, unit: Unit, manifest: Manifest, first: Manifest) -> Arrival:
    """Return the index entry of a file, with its content; bytes that exist already keep their upload time and yank.

    `first` is the manifest of the index that this one mirrors: bytes in it keep its upload time here.
    """
    metadata, requires_python = metadata_of(item.path) if item.made else (b"", "")
    entry = entry_of(item, unit, manifest, first)
    entry = entry._replace(
        requires_python=requires_python, metadata_sha256=hashlib.sha256(metadata).hexdigest() if metadata else ""
    )
    return Arrival(entry, content_of_file(item.path, item.sha256), metadata)


def entry_of(item: Item, unit: Unit, manifest: Manifest, first: Manifest) -> IndexedFile:
    """Return the index entry of a file that need not exist yet, without what only its METADATA tells."""
    now = utc(datetime.now(timezone.utc))
    entry = IndexedFile(
        name=item.name,
        folder=item.folder,
        sha256=item.sha256,
        size=item.size,
        uploaded=now,
        also=item.also,
        candidate=unit.edition.candidate or 0,
        job=item.made.job if item.made else "",
        platform=item.made.platform if item.made else "",
        archs=item.made.archs if item.made else (),
        toolchain=item.made.toolchain if item.made else "",
        commit=unit.commit,
        variant=item.variant,
        origin=item.origin,
        gpu=item.gpu,
        drivers=drivers_of(item.made.accelerator if item.made else "", unit.catalog),
    )
    if manifest.place and not item.folder:
        entry = entry._replace(at=f"{manifest.place}/{item.name}")
    old = next((old for old in manifest.called(item.name) if old.sha256 == entry.sha256), None)
    if old:
        entry = _with_marks(entry, old)._replace(commit=old.commit or entry.commit)
        entry = entry._replace(origin=entry.origin and old.origin)  # a plan's file has no foreign origin
        is_at_its_place = old.folder == entry.folder and not old.is_outside
        entry = entry._replace(apart=old.apart, at=old.at, only_in=old.only_in) if is_at_its_place else entry
    elif there := next((one for one in first.called(item.name) if one.sha256 == entry.sha256), None):
        entry = _with_marks(entry, there)._replace(commit=there.commit)
    return entry


def _with_marks(entry: IndexedFile, old: IndexedFile) -> IndexedFile:
    """Return an entry with the time and the yank that its bytes have already."""
    return entry._replace(uploaded=old.uploaded, yanked=old.yanked, retracted=old.retracted, before=old.before)


def metadata_of(path: Path) -> tuple[bytes, str]:
    """Return a wheel's METADATA and its Requires-Python."""
    wheel = open_wheel(path)
    with wheel.archive:
        metadata, requires = wheel.dist_info_data("METADATA"), wheel.metadata.get("Requires-Python", "")
    if not metadata:
        raise Rejected(f"{path.name} has no METADATA")
    return metadata, requires
