"""The finder's data: of one project, `finder/PROJECT.js`, and of recipes, `finder/_recipes.js`.

It is small because nothing is in it twice: combinations point to rows, rows to outcomes, and outcomes to texts. No
project has the second name: a canonical one begins with a letter or a digit (PEP 503).
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from packaging.utils import canonicalize_name

from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators import read_label
from ci_tools.errors import RejectedInput
from ci_tools.formats import json_file
from ci_tools.index.file_names import variant_label
from ci_tools.index.finder.axes import combinations
from ci_tools.index.finder.shelf import File, Shelf, ShelfVersion
from ci_tools.install.lock import LockedWheel
from ci_tools.model.platforms import Platform
from ci_tools.model.versions import read_version

DATA = "finder"  # the folder of the projects' data, beside the front page
NOT_ASKED = -1  # in a row: the release does not cover the combination
NO_FILE = -1  # in an outcome: a reason instead of a file
SYSTEMS = {"linux": "Linux", "macos": "macOS", "windows": "Windows"}
SHOWN = (  # of a file, what the page says, in this order
    *("name", "address", "size", "sha256", "pin", "uploaded", "requires_python", "yanked", "folder", "platform"),
    *("archs", "toolchain", "commit", "lock", "origin", "gpu", "repository", "attested", "remade"),
)
MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "ARM64", "arm64": "ARM64"}

Value = TypeVar("Value", bound="Hashable")
Table = TypeVar("Table", bound=tuple[object, ...])
RECIPES = f"{DATA}/_recipes.js"


def data_path(project: str) -> str:
    """Return the key of a project's data in the index."""
    return f"{DATA}/{canonicalize_name(project)}.js"


def project_data(shelf: Shelf, catalog: Catalog) -> bytes:
    """Return the content of `finder/PROJECT.js`: ASCII, and safe wherever it is read as HTML."""
    tables = _Tables(catalog)
    listings = [_listing(listing, tables) for listing in shelf.listings]
    about = {name: value for name, value in shelf.about._asdict().items() if value}
    document = {"project": shelf.project, "about": about, "listings": listings, **tables.dump()}
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


def structure_call(content: bytes, name: str, kind: type[Table]) -> Table:
    """Return the argument of a script that is one call, `finder({...});`; raise ValueError if it is not one."""
    found = re.fullmatch(rb"\s*" + name.encode() + rb"\((.*)\);\s*", content, re.DOTALL)
    if found is None:
        raise ValueError(f"it is not a call of {name}")
    try:
        return json_file.structure(json_file.parse(found[1]), kind, "it")
    except RejectedInput as error:
        raise ValueError(error.problems[0].what) from error


def _listing(listing: ShelfVersion, tables: _Tables) -> dict[str, object]:
    outcomes: _Table[tuple[int, int]] = _Table()  # a file, and the text with the reason
    places = {file.name: place for place, file in enumerate(listing.files)} if listing.offers else {}
    rows: dict[tuple[int, int, int], dict[int, int]] = {}
    for offer in listing.offers:
        key = (
            tables.systems.place(_system(offer.platform, tables.catalog)),
            tables.accelerators.place((offer.accelerator, _accelerator(offer.accelerator))),
            tables.torches.place(offer.torch),
        )
        is_gone = bool(offer.file) and offer.file not in places
        file, why = places.get(offer.file, NO_FILE), offer.reason
        why = f"{offer.file} was made for it and is not in this index" if is_gone else why
        outcome = outcomes.place((file, tables.texts.place(why)))
        rows.setdefault(key, {})[tables.pythons.place(offer.python)] = outcome
    for name, machine, python in _combinations_of_others(listing, tables):
        if listing.offers:  # else the page offers every value that the tables have
            rows.setdefault(machine, {}).setdefault(python, outcomes.place((places[name], tables.texts.place(""))))
    grid = [part for key, row in rows.items() for part in (*key, tables.rows.place(_row(row)))]
    return {
        "version": listing.version,
        "pre": bool((found := read_version(listing.version)) and found.is_prerelease),
        "files": [_describe_file(file) for file in listing.files],
        "outcomes": list(outcomes.places),
        "grid": tables.grids.place(tuple(grid)),
    }


def _combinations_of_others(listing: ShelfVersion, tables: _Tables) -> Iterator[tuple[str, tuple[int, int, int], int]]:
    """Yield each wheel that no release offers, by its name, with the places of each machine and Python it is for."""
    offered, torches = {offer.file for offer in listing.offers}, {offer.torch: None for offer in listing.offers}
    for file in listing.files:
        if file.lock is None or file.name in offered or file.entry.yanked is not None or variant_label(file.name):
            continue
        for os, machine, accelerator, torch, python in combinations(file, torches, tables.catalog.pythons):
            key = (
                tables.systems.place((name_system(os, machine), f"{SYSTEMS.get(os, os)} {_machine(machine)}")),
                tables.accelerators.place((accelerator, _accelerator(accelerator))),
                tables.torches.place(torch),
            )
            yield file.name, key, tables.pythons.place(python)


def _row(outcomes: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(outcomes.get(place, NOT_ASKED) for place in range(max(outcomes) + 1))


def _describe_file(file: File) -> dict[str, object]:
    """Return the known facts of a file; empty ones are left out, except the reason of a yank."""
    known = {**file.entry._asdict(), **file._asdict()}
    facts = {name: known[name] for name in SHOWN if known[name] or (name == "yanked" and known[name] is not None)}
    return {**facts, "lock": _describe_lock(file.lock)} if file.lock else facts


def _describe_lock(wheel: LockedWheel) -> dict[str, object]:
    """Return what a lock says of a wheel, without what its file says already; empty values are left out."""
    drivers = {"sass": wheel.driver_sass, "ptx": wheel.driver_ptx}
    known = {
        "cuda": wheel.cuda,
        "serves": wheel.serves,
        "rocm": wheel.rocm,
        "xpu": wheel.xpu,
        "other": wheel.other,
        "driver": {name: driver for name, driver in drivers.items() if driver},
        "torch": wheel.torch,
        "cxx11abi": wheel.cxx11abi,
    }
    return {name: value for name, value in known.items() if value}


def _system(platform: str, catalog: Catalog) -> tuple[str, str]:
    """Return the name and label of a platform's machine; an unknown platform's own name for both."""
    try:
        facts = catalog.platforms[Platform(platform)]
    except (ValueError, KeyError):
        return platform, platform
    return name_system(facts.os, facts.machine), f"{SYSTEMS.get(facts.os, facts.os)} {_machine(facts.machine)}"


def name_system(os: str, machine: str) -> str:
    """Return the page's name of a machine: linux-arm64 for linux and aarch64."""
    return f"{os}-{_machine(machine)}".lower()


def _machine(name: str) -> str:
    return MACHINES.get(name, name)


def _accelerator(label: str) -> str:
    """Return the usual name of an accelerator: CUDA 13.0."""
    if (found := read_label(label)) is None:
        return label or "None (CPU)"
    return f"{found.kind.named_in_finder or found.kind.named} {found.version or ''}".strip()


class Exclusion(NamedTuple):
    """Cells for which a package can have no wheel, and the reason; an empty field stands for all."""

    reason: str
    python: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()


class Maker(NamedTuple):
    """A recipe, and the machines for which it can be asked for a wheel."""

    recipe: str
    project: str  # its canonical name
    systems: tuple[tuple[str, str], ...]  # a machine and its accelerator: linux-x86_64, cuda; "" for no accelerator
    python: tuple[str, ...] = ()  # those that it has a version for; empty: any
    uses_torch: bool = False
    exclusions: tuple[Exclusion, ...] = ()


class RecipesTable(NamedTuple):
    """The JSON of the file."""

    form: str
    recipes: tuple[Maker, ...]


def system_and_kind(platform: Platform, catalog: Catalog) -> tuple[str, str]:
    """Return the page's name of a platform's machine, and the kind of its accelerator: linux-x86_64, cuda."""
    facts = catalog.platforms[platform]
    return name_system(facts.os, facts.machine), str(facts.accelerator or "")


def recipes_data(makers: Sequence[Maker], form: str) -> bytes:
    """Return the content of `finder/_recipes.js`; `form` is the address where a wheel can be asked for, "" for none."""
    rows = [_describe(maker) for maker in sorted(makers)]
    text = json.dumps({"form": form, "recipes": rows}, separators=(",", ":")).replace("<", "\\u003c")
    return f"recipes({text});\n".encode("ascii")


def _describe(maker: Maker) -> dict[str, object]:
    exclusions = [{name: value for name, value in one._asdict().items() if value} for one in maker.exclusions]
    return {**maker._asdict(), "exclusions": exclusions}


def parse_recipes(content: bytes) -> tuple[tuple[Maker, ...], str]:
    """Return the recipes of such a file, and the form's address; raise ValueError if it is not one."""
    table = structure_call(content, "recipes", RecipesTable)
    return table.recipes, table.form
