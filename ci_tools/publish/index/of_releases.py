"""The list that publishing leaves in a GitHub Release, and what an index over releases makes of such lists.

A release itself does not say which accelerator a file is for, which Python it needs, or what it was built from.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name

from ci_tools.model.pep440 import parse_version
from ci_tools.publish.index.manifest import parse_manifest, parse_offers
from ci_tools.publish.index.pages import project_and_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packaging.version import Version

    from ci_tools.publish.index.pages import IndexedFile
    from ci_tools.publish.units import Offer, Unit

__all__ = [
    "MOST_BYTES",
    "Facts",
    "Listing",
    "Stock",
    "listing",
    "listing_name",
    "names_the_same",
    "read_listing",
    "stock",
]

MOST_BYTES = 16 << 20  # of a list
LISTING = "fatwheel-{unit}.json"
# What a list says of a file, in the words of an index; older lists have the first six.
FIELDS = ("name", "sha256", "size", "folder", "also", "requires_python", "metadata_sha256", "gpu")
FIELDS_OF_A_BUILD = ("job", "platform", "archs", "toolchain")  # of a wheel


class Facts(NamedTuple):
    """What a wheel says of itself."""

    requires_python: str = ""
    metadata: bytes = b""


class Listing(NamedTuple):
    """What the list of a unit says."""

    project: str
    version: str
    files: tuple[IndexedFile, ...]
    offers: tuple[Offer, ...]


class Stock(NamedTuple):
    """What an index over releases has of a project in one channel."""

    files: Mapping[str, IndexedFile]
    offers: Mapping[str, tuple[Offer, ...]]  # by version


def listing_name(unit: str) -> str:
    """Return the name of the file that lists a unit's files in its release."""
    return LISTING.format(unit="".join(char if char.isascii() and char.isalnum() else "-" for char in unit))


def listing(unit: Unit, facts: Mapping[str, Facts]) -> bytes:
    """Return the list of a unit's files, with the `facts` of each wheel; the same unit gives the same bytes."""
    files = []
    for item in sorted(unit.items, key=lambda item: item.name):
        known, made = facts.get(item.name, Facts()), item.made
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
        files.append(said | {name: getattr(made, name) for name in FIELDS_OF_A_BUILD} if made else said)
    document = {
        "project": unit.project,
        "version": unit.version,
        "unit": unit.name,
        "commit": unit.commit,
        "files": files,
        "offers": list(unit.offers),
    }
    return (json.dumps(document, indent=1) + "\n").encode()


def read_listing(content: bytes, uploaded: str) -> Listing:
    """Return what a list says; raise ValueError where it is none. `uploaded` is when its release appeared."""
    try:
        document = json.loads(content)
        project, version = canonicalize_name(document["project"]), str(parse_version(document["version"]))
        own = {"uploaded": uploaded, "commit": document.get("commit", "")}
        known = {*FIELDS, *FIELDS_OF_A_BUILD}
        entries = [{key: entry[key] for key in known & entry.keys()} | own for entry in document["files"]]
        table = {"generation": 0, "files": entries}
        files = parse_manifest(json.dumps(table).encode(), project).files
        offers = parse_offers(json.dumps(document.get("offers", [])).encode())
    except (KeyError, TypeError, RecursionError, AttributeError) as error:
        msg = f"it is no list of files: {error}"
        raise ValueError(msg) from None
    return Listing(project, version, tuple(files.values()), offers)


def names_the_same(content: bytes, other: bytes) -> bool:
    """Return whether two lists name the same files with the same bytes, whatever else they say of them."""
    try:
        one, two = ({file.name: file.sha256 for file in read_listing(each, "").files} for each in (content, other))
    except ValueError:
        return False
    return one == two


def stock(listings: Iterable[Listing]) -> Stock:
    """Return what some lists have together; of a name in several, the first is taken.

    Of a version with several candidates, the files of the last one alone are, as in an index of candidates.
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
