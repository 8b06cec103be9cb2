"""The list of files that publishing adds to a GitHub Release, and the index entries made from such lists.

A release itself does not give the accelerator of a file, its required Python, or its source.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import Version

from ci_tools.index.file_names import project_and_version
from ci_tools.index.manifest import ManifestTable, manifest_of, parse_offers, read_table
from ci_tools.index.pages import IndexedFile
from ci_tools.index.units import Offer, Unit
from ci_tools.index.wheel_facts import drivers_of
from ci_tools.model.versions import parse_version

MAX_BYTES = 16 << 20  # bytes of a list
LISTING = "fatwheel-{unit}.json"


class ListedFile(NamedTuple):
    """The JSON of a file in a list, its fields named as in an index; older lists have the first six."""

    name: str
    sha256: str
    size: int
    folder: str
    also: tuple[str, ...] = ()
    requires_python: str = ""
    metadata_sha256: str = ""
    gpu: str = ""
    job: str = ""  # this and the next three are of wheels only
    platform: str = ""
    archs: tuple[str, ...] = ()
    toolchain: str = ""
    drivers: tuple[str, ...] = ()


class ListingTable(NamedTuple):
    """The JSON of a list; keys that it has besides these are for other readers."""

    project: str
    version: str
    files: tuple[ListedFile, ...]
    commit: str = ""
    offers: Any = ()  # read by `parse_offers`
    aliases: Mapping[str, str] = MappingProxyType({})  # the second names of wheels, each with its sha256


FIELDS_OF_A_BUILD = ("job", "platform", "archs", "toolchain")


class WheelMetadata(NamedTuple):
    """The metadata of a wheel."""

    requires_python: str = ""
    metadata: bytes = b""


class UnitListing(NamedTuple):
    """The content of a unit's list."""

    project: str
    version: str
    files: tuple[IndexedFile, ...]
    offers: tuple[Offer, ...]
    aliases: frozenset[str] = frozenset()  # the second names of its wheels, which no index has


class Stock(NamedTuple):
    """A project's files in one channel of an index over releases."""

    files: Mapping[str, IndexedFile]
    offers: Mapping[str, tuple[Offer, ...]]  # by version


def listing_name(unit: str) -> str:
    """Return the name of a unit's list in its release."""
    return LISTING.format(unit="".join(char if char.isascii() and char.isalnum() else "-" for char in unit))


def listing(unit: Unit, facts: Mapping[str, WheelMetadata]) -> bytes:
    """Return the list of a unit's files, with the `facts` of each wheel; the same unit gives the same bytes."""
    files = []
    for item in sorted(unit.items, key=lambda item: item.name):
        known, made = facts.get(item.name, WheelMetadata()), item.made
        said: dict[str, object] = {
            "name": item.name,
            "sha256": item.sha256,
            "size": item.size,
            "folder": item.folder,
            "also": list(item.also),
            "requires_python": known.requires_python,
            "metadata_sha256": hashlib.sha256(known.metadata).hexdigest() if known.metadata else "",
            "gpu": item.gpu,
        }
        if made and (drivers := drivers_of(made.accelerator, unit.catalog)):
            said["drivers"] = drivers
        files.append(said | {name: getattr(made, name) for name in FIELDS_OF_A_BUILD} if made else said)
    document = {
        "project": unit.project,
        "version": unit.version,
        "unit": unit.name,
        "commit": unit.commit,
        **({"request": unit.request_sha256} if unit.request_sha256 else {}),
        "files": files,
        "offers": list(unit.offers),
        **({"aliases": {alias.name: alias.sha256 for alias in unit.aliases}} if unit.aliases else {}),
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def read_listing(content: bytes, uploaded: str) -> UnitListing:
    """Return the content of a list; raise ValueError if it is invalid. `uploaded` is the time of its release."""
    table = read_table(content, ListingTable, exact=False)
    project, version = canonicalize_name(table.project), str(parse_version(table.version))
    entries = (IndexedFile(**file._asdict(), uploaded=uploaded, commit=table.commit) for file in table.files)
    files = manifest_of(ManifestTable(0, tuple(entries)), project).files
    offers = parse_offers(json.dumps(table.offers).encode())
    return UnitListing(project, version, tuple(files.values()), offers, frozenset(table.aliases))


def names_the_same(content: bytes, other: bytes) -> bool:
    """Return whether two lists name the same files with the same bytes; other fields may differ."""
    try:
        one, two = ({file.name: file.sha256 for file in read_listing(each, "").files} for each in (content, other))
    except ValueError:
        return False
    return one == two


def stock(listings: Iterable[UnitListing]) -> Stock:
    """Return the files of some lists together; if a name is in several, the first one is used.

    Of a version with several candidates, only the last one's files are returned, as in an index of candidates.
    """
    listings = tuple(listings)
    files: dict[str, IndexedFile] = {}
    offers: dict[str, dict[tuple[str, ...], Offer]] = {}
    for one in listings:
        for file in one.files:
            files.setdefault(file.name, file)
        for offer in one.offers:
            offers.setdefault(one.version, {}).setdefault(offer[:4], offer)
    newest: dict[Version, int] = {}
    for file in files.values():
        newest[_version(file)] = max(newest.get(_version(file), 0), file.candidate)
    kept = {name: file for name, file in files.items() if file.candidate == newest[_version(file)]}
    return Stock(kept, {version: tuple(known.values()) for version, known in offers.items()})


def _version(file: IndexedFile) -> Version:
    return parse_version(project_and_version(file.name)[1].public)
