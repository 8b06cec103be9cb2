"""The project that the finder shows: what it says of itself, its versions, and what there is for each combination."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.catalog import Catalog
from ci_tools.formats.wheel import explain_headers, read_headers
from ci_tools.index.file_names import project_and_version, release_of
from ci_tools.index.foreign.files import METADATA_SUFFIX
from ci_tools.index.pages import IndexedFile, quote_key
from ci_tools.index.wheel_facts import WheelMachines, add_facts, lowest_torch
from ci_tools.install.lock import LockedWheel
from ci_tools.model.names import FileName, Sha256
from ci_tools.model.versions import parse_version

if TYPE_CHECKING:
    from ci_tools.index.units import Offer

# The well-known labels of Project-URL and their other names: PyPA, "Well-known Project URLs in Metadata".
LABELS = {
    "Source": ("source", "repository", "sourcecode", "github"),
    "Changelog": ("changelog", "changes", "whatsnew", "history", "releasenotes"),
    "Documentation": ("documentation", "docs"),
    "Issues": ("issues", "bugs", "issue", "tracker", "issuetracker", "bugtracker"),
    "Homepage": ("homepage",),
}
WEB = re.compile(r"https?://[^\s\"<>]+")
LONGEST = 300  # characters of a summary


class About(NamedTuple):
    """The summary of a project and its links, each a label and an address."""

    summary: str = ""
    links: tuple[tuple[str, str], ...] = ()


class File(NamedTuple):
    """One file of an index, as shown to a visitor."""

    entry: IndexedFile
    address: str  # relative to the index's root and quoted, or a whole URL
    pin: str = ""  # its version with the local part: 0.1.0+cu130
    folder: str = ""  # the index folder that lists it
    lock: LockedWheel | None = None  # the facts by which it is chosen; None for an sdist

    @property
    def name(self) -> str:
        """The file's name."""
        return self.entry.name


class ShelfVersion(NamedTuple):
    """One version of a project: its files, and the file or reason for each combination that a visitor may have."""

    version: str  # without a local version
    files: tuple[File, ...] = ()
    offers: tuple[Offer, ...] = ()


class Shelf(NamedTuple):
    """All versions and files of one project in an index."""

    project: str
    listings: tuple[ShelfVersion, ...]  # the newest first
    about: About = About()


# -- from an index to a shelf


def shelf_of(
    project: str,
    files: Iterable[IndexedFile],
    offers: Mapping[str, Sequence[Offer]],
    catalog: Catalog,
    about: About = About(),  # noqa: B008 - it is frozen
) -> Shelf:
    """Return the shelf of `project`: its files, the offers by version, and what it says of itself."""
    lowest = _lowest_torches(offers)
    found: dict[str, list[File]] = {}
    for file in files:
        _, pin, public = release_of(file.name)
        found.setdefault(public, []).append(_file(file, pin, catalog, lowest.get(file.name, "")))
    newest_first = sorted(found, key=parse_version, reverse=True)
    listings = (
        ShelfVersion(version, tuple(sorted(found[version], key=lambda file: file.name)), tuple(offers.get(version, ())))
        for version in newest_first
    )
    return Shelf(canonicalize_name(project), tuple(listings), about)


def _lowest_torches(offers: Mapping[str, Sequence[Offer]]) -> dict[str, str]:
    """Return the lowest torch that each file is offered for."""
    cells: dict[str, set[str]] = {}
    for each in offers.values():
        for offer in each:
            cells.setdefault(offer.file, set()).add(f"torch{offer.torch}")
    return {file: lowest_torch(texts) for file, texts in cells.items()}


def _file(file: IndexedFile, pin: str, catalog: Catalog, lowest: str) -> File:
    address = file.at if "://" in file.at else quote_key(file.key)
    folder = file.folder if not file.only_in or file.folder in file.only_in else min(file.only_in)
    return File(file, address, pin, folder, _lock(file, catalog, lowest) if file.name.endswith(".whl") else None)


def _lock(file: IndexedFile, catalog: Catalog, lowest: str) -> LockedWheel:
    """Return what a lock would say of a wheel; one of others is for the accelerator of the folder that lists it."""
    own = (file.folder, *file.also)
    folders = own if file.folder or not file.only_in else tuple(sorted(file.only_in, key=lambda name: not name))
    wheel = LockedWheel(FileName(file.name), (), Sha256(file.sha256), file.size, archs=file.archs)
    known = add_facts(wheel, WheelMachines(folders[0].partition("torch")[0], file.platform, folders, lowest), catalog)
    if file.drivers and known.driver_sass is None:
        known = known._replace(driver_sass=file.drivers[0], driver_ptx=file.drivers[-1])
    return known


def read_about(metadata: bytes) -> About:
    """Return what a METADATA file says of its project; of an unreadable one, nothing."""
    said = metadata.decode(errors="replace")
    message = read_headers("" if explain_headers(said) else said, "METADATA")
    found: dict[str, str] = {}
    old = (f"homepage, {url}" for url in _texts(message.get_all("Home-page")))  # deprecated by PEP 753
    for text in (*_texts(message.get_all("Project-URL")), *old):
        label, _, address = (part.strip() for part in text.partition(","))
        plain = re.sub(r"[^a-z0-9]", "", label.lower())
        name = next((name for name, others in LABELS.items() if plain in others), "")
        if name and WEB.fullmatch(address):
            found.setdefault(name, address)
    summary = next(iter(_texts(message.get_all("Summary"))), "").strip()
    return About(summary[:LONGEST], tuple((name, found[name]) for name in LABELS if name in found))


def read_newest(files: Iterable[IndexedFile], read: Callable[[str], bytes | None]) -> About:
    """Return what the newest wheel says of its project.

    `read` returns the content of a file of the index by its key: of the `.metadata` beside the wheel.
    """
    wheels = [file for file in files if file.metadata_sha256 and not file.is_outside and file.yanked is None]
    newest = max(wheels, key=lambda file: (project_and_version(file.name)[1], file.name), default=None)
    content = read(f"{newest.key}{METADATA_SUFFIX}") if newest else None
    if newest is None or content is None or hashlib.sha256(content).hexdigest() != newest.metadata_sha256:
        return About()
    return read_about(content)


def _texts(values: Sequence[object] | None) -> list[str]:
    return [str(value) for value in values or ()]
