"""The finder: the front page of an index, where a visitor selects a machine and copies the install command.

The page lists only the projects (PEP 503). The data of each project is in `finder/PROJECT.js`, a script that the page
loads when the project is selected, since a page opened from a folder may load nothing but scripts. That file is small
because nothing is in it twice: combinations point to rows, rows to outcomes, and outcomes to texts.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import re
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from packaging.utils import canonicalize_name

from ci_tools.model.pep440 import parse_version, read_version
from ci_tools.model.platforms import AcceleratorKind, Platform
from ci_tools.publish.index.pages import API_VERSION, quote_key, release_of, seal_html

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from ci_tools.catalog import Catalog, Cuda
    from ci_tools.publish.index.pages import IndexedFile
    from ci_tools.publish.units import Offer

__all__ = ["DATA", "File", "Listing", "Shelf", "data_path", "front_page", "project_data", "shelf_of"]

HERE = Path(__file__).parent
SCRIPTS = ("diagnosis.js", "recipes.js", "choice.js", "finder.js", "projects.js")  # the last one begins
DATA = "finder"  # the folder of the projects' data, beside the front page
NOT_ASKED = -1  # in a row: the release does not cover the combination
NO_FILE = -1  # in an outcome: a reason instead of a file
SYSTEMS = {"linux": "Linux", "macos": "macOS", "windows": "Windows"}
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "ARM64", "arm64": "ARM64"}
ACCELERATORS = {AcceleratorKind.CUDA: "CUDA", AcceleratorKind.ROCM: "ROCm", AcceleratorKind.XPU: "Intel XPU"}
VERSIONED_LABEL = re.compile(r"([a-z]+)([0-9.]*)")  # rocm7.1, xpu

Value = TypeVar("Value", bound="Hashable")


class File(NamedTuple):
    """One file of an index, as shown to a visitor."""

    name: str
    address: str  # relative to the index's root and quoted, or a whole URL
    size: int  # bytes
    sha256: str
    pin: str = ""  # its version with the local part: 0.1.0+cu130
    uploaded: str = ""  # RFC 3339, UTC
    requires_python: str = ""
    yanked: str | None = None  # the reason; None: it is not yanked
    folder: str = ""  # the index folder that lists it
    platform: str = ""  # linux-cuda; empty for the pure wheel and the sdist
    archs: tuple[str, ...] = ()  # 9.0, 10.0+PTX
    toolchain: str = ""
    commit: str = ""  # of the source it was built from
    driver: str = ""  # the oldest driver that runs its machine code
    ptx_driver: str = ""  # the oldest driver that compiles its PTX
    provenance: str = ""  # the address of its attestation
    origin: str = ""  # adopted, added; empty: built by a plan
    gpu: str = ""  # whether it was tried on a GPU, in words


class Listing(NamedTuple):
    """One version of a project: its files, and the file or reason for each combination that a visitor may have."""

    version: str  # without a local version
    files: tuple[File, ...] = ()
    offers: tuple[Offer, ...] = ()


class Shelf(NamedTuple):
    """All versions and files of one project in an index."""

    project: str
    listings: tuple[Listing, ...]  # the newest first


# -- from an index to a shelf


def shelf_of(
    project: str,
    files: Iterable[IndexedFile],
    offers: Mapping[str, Sequence[Offer]],
    catalog: Catalog,
    provenance: Mapping[str, str] | None = None,
) -> Shelf:
    """Return the shelf of `project`: its files, the offers by version, the addresses of attestations by file name."""
    found: dict[str, list[File]] = {}
    for file in files:
        _, pin, public = release_of(file.name)
        shown = _file(file, pin, catalog, provenance.get(file.name, "") if provenance else "")
        found.setdefault(public, []).append(shown)
    newest_first = sorted(found, key=parse_version, reverse=True)
    listings = (
        Listing(version, tuple(sorted(found[version], key=lambda file: file.name)), tuple(offers.get(version, ())))
        for version in newest_first
    )
    return Shelf(canonicalize_name(project), tuple(listings))


def _file(file: IndexedFile, pin: str, catalog: Catalog, provenance: str) -> File:
    driver, ptx_driver = _drivers(file, catalog)
    return File(
        name=file.name,
        address=file.at if "://" in file.at else quote_key(file.key),
        size=file.size,
        sha256=file.sha256,
        pin=pin,
        uploaded=file.uploaded,
        requires_python=file.requires_python,
        yanked=file.yanked,
        folder=file.folder,
        platform=file.platform,
        archs=file.archs,
        toolchain=file.toolchain,
        commit=file.commit,
        driver=driver,
        ptx_driver=ptx_driver,
        provenance=provenance,
        origin=file.origin,
        gpu=file.gpu,
    )


def _drivers(file: IndexedFile, catalog: Catalog) -> tuple[str, str]:
    """Return the oldest drivers for a file's machine code and for its PTX; only known for CUDA on Linux."""
    if not file.platform.startswith("linux"):
        return "", ""
    cuda = _cuda(file.folder.partition("torch")[0], catalog)  # of cu130torch2.10
    if cuda is None:
        return "", ""
    return cuda.sass_driver, cuda.driver if any(arch.endswith("+PTX") for arch in file.archs) else ""


def _cuda(label: str, catalog: Catalog) -> Cuda | None:
    """Return the CUDA release of a label such as `cu130`, among the known ones, since `cu1210` has no dot."""
    known = (cuda for version, cuda in catalog.cuda.items() if label == f"cu{version.digits}")
    return next(known, None)


# -- the data of one project


def data_path(project: str) -> str:
    """Return the key of a project's data in the index."""
    return f"{DATA}/{canonicalize_name(project)}.js"


def project_data(shelf: Shelf, catalog: Catalog) -> bytes:
    """Return the content of `finder/PROJECT.js`: ASCII, and safe wherever it is read as HTML."""
    tables = _Tables(catalog)
    listings = [_listing(listing, tables) for listing in shelf.listings]
    document = {"project": shelf.project, "listings": listings, **tables.dump()}
    text = json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")
    return f"finder({text});\n".encode("ascii")


class _Table(Generic[Value]):
    """A table of distinct values that are referred to by their index."""

    def __init__(self) -> None:
        self.places: dict[Value, int] = {}

    def place(self, value: Value) -> int:
        """Return the index of a value, adding the value if it is new."""
        return self.places.setdefault(value, len(self.places))


class _Tables:
    """The tables that all versions of a project share."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.systems: _Table[tuple[str, str]] = _Table()  # name, label
        self.accelerators: _Table[tuple[str, str]] = _Table()  # name, label
        self.torches: _Table[str] = _Table()
        self.pythons: _Table[str] = _Table()
        self.texts: _Table[str] = _Table()
        self.rows: _Table[tuple[int, ...]] = _Table()  # one outcome per Python
        self.grids: _Table[tuple[int, ...]] = _Table()  # system, accelerator, torch, row; and so on

    def dump(self) -> dict[str, object]:
        """Return the tables as JSON values."""
        return {name: list(table.places) for name, table in vars(self).items() if isinstance(table, _Table)}


def _listing(listing: Listing, tables: _Tables) -> dict[str, object]:
    outcomes: _Table[tuple[int, int]] = _Table()  # a file, and the text with the reason
    places = {file.name: place for place, file in enumerate(listing.files)} if listing.offers else {}
    rows: dict[tuple[int, int, int], dict[int, int]] = {}
    for offer in listing.offers:
        key = (
            tables.systems.place(_system(offer.platform, tables.catalog)),
            tables.accelerators.place((offer.accelerator, _accelerator(offer.accelerator, tables.catalog))),
            tables.torches.place(offer.torch),
        )
        file, why = _outcome(offer, places)
        outcome = outcomes.place((file, tables.texts.place(why)))
        rows.setdefault(key, {})[tables.pythons.place(offer.python)] = outcome
    grid = [part for key, row in rows.items() for part in (*key, tables.rows.place(_row(row)))]
    return {
        "version": listing.version,
        "pre": _is_pre(listing.version),
        "files": [_describe_file(file) for file in listing.files],
        "outcomes": list(outcomes.places),
        "grid": tables.grids.place(tuple(grid)),
    }


def _outcome(offer: Offer, places: Mapping[str, int]) -> tuple[int, str]:
    if offer.file and offer.file not in places:
        return NO_FILE, f"{offer.file} was made for it and is not in this index"
    return places.get(offer.file, NO_FILE), offer.reason


def _row(outcomes: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(outcomes.get(place, NOT_ASKED) for place in range(max(outcomes) + 1))


def _is_pre(version: str) -> bool:
    found = read_version(version)
    return found is not None and found.is_prerelease


def _describe_file(file: File) -> dict[str, object]:
    """Return the known facts of a file; empty ones are left out, except the reason of a yank."""
    known = zip(File._fields, file, strict=True)
    return {name: value for name, value in known if value or (name == "yanked" and value is not None)}


def _system(platform: str, catalog: Catalog) -> tuple[str, str]:
    """Return the name and label of a platform's machine; an unknown platform's own name for both."""
    try:
        facts = catalog.platforms[Platform(platform)]
    except (ValueError, KeyError):
        return platform, platform
    machine = MACHINES.get(facts.machine, facts.machine)
    return f"{facts.os}-{machine}".lower(), f"{SYSTEMS.get(facts.os, facts.os)} {machine}"


def _accelerator(label: str, catalog: Catalog) -> str:
    """Return the usual name of an accelerator: CUDA 13.0."""
    cuda = _cuda(label, catalog)
    if cuda:
        return f"CUDA {cuda.version}"
    named = VERSIONED_LABEL.fullmatch(label)
    try:
        return f"{ACCELERATORS[AcceleratorKind(named[1])]} {named[2]}".strip() if named else label or "None (CPU)"
    except ValueError:
        return label


# -- the page


def front_page(projects: Iterable[str], *, title: str, folders: Iterable[str]) -> bytes:
    """Return the front page of an index: the list of its projects (PEP 503), and the finder.

    Its content security policy allows only the page's own scripts, and those that they load.
    """
    page, style, script = _parts()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}' 'strict-dynamic'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    rows = (f'<li><a href="{quote(name)}/">{html.escape(name)}</a></li>' for name in sorted(projects))
    codes = (f"<li><code>{html.escape(name)}/</code></li>" for name in sorted(folders) if name)
    values = {
        "api_version": API_VERSION,
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "script": script,
        "projects": "\n        ".join(rows),
        "folders": "\n        ".join(codes),
    }
    return seal_html(page.substitute(values))


@functools.cache
def _parts() -> tuple[Template, str, str]:
    """Return the page, its style and its scripts as one, as installed with the package."""
    page, style, *scripts = (
        (HERE / name).read_text(encoding="utf-8") for name in ("page.html", "finder.css", *SCRIPTS)
    )
    return Template(page), f"\n{style}", "\n".join(["", *scripts])


def _hash(text: str) -> str:
    """Return a text's hash in the notation of a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
