"""The symbols that each release of torch exports, and each Python, as data read from them.

The tables are in `catalog/torch_symbols`: `releases.toml` names the wheels they were read from, `c.tsv` has the C
functions, and `cpp.tsv.xz`, compressed because of its size, has the C++ names of torch's namespaces. These are `at`,
`c10`, `c10d`, `caffe2`, `torch`, and the `TH` types of the Python binding; other C++ names, including those of other
projects that torch contains, are skipped. `standard.tsv` has the names of the C++ standard library that libtorch_cpu
exports as well: an extension that is linked with it takes them from there, and not from libstdc++ by a version that an
older system may lack. Other builds of a release may differ: torch 2.6 for CUDA was read from a
wheel with the old ABI of `std::string`, so its CUDA functions that take a string are known only by their old names.

A maintainer adds a release with `python -m tests.maintain.torch_table 2.16.0`.
"""

from __future__ import annotations

import functools
import lzma
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import abi3info  # type: ignore[import-untyped] # it has no types

from ci_tools.catalog.tables import parse
from ci_tools.model.names import Sha256
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.model.versions import Minor

FOLDER = Path(__file__).parent / "torch_symbols"
RELEASES, C_TABLE, CPP_TABLE, STANDARD_TABLE = "releases.toml", "c.tsv", "cpp.tsv.xz", "standard.tsv"
# Some names with this prefix belong to torch's copy of one Python's interpreter internals, and are not for others.
C_SYMBOL = re.compile(r"(aoti_torch_|aoti_record_|torch_|TH[CP](?!_Py))")
# Itanium C++ ABI, 5.1: special names (vtables, typeinfo, thunks, guards), function locals, then the nested name.
CPP_SYMBOL = re.compile(
    r"_Z(?:T[VTISThvc]|GV|GR)?(?:n?\d+_)*Z*(?:N[rVKRO]*(?:2at|3c10|4c10d|6caffe2|5torch|\d+TH[CP][A-Z])|\d+TH[CP][A-Z])"
)


class Source(NamedTuple):
    """A torch release in the tables, and the wheels its symbols were read from."""

    version: Minor
    patch: str
    wheels: tuple[str, ...]
    records: tuple[tuple[str, Sha256], ...] = ()  # wheels of it, and the sha256 of the RECORD in each


class Tables(NamedTuple):
    """For every symbol, the releases that have it: in every build, or only in the libraries of CUDA builds."""

    sources: tuple[Source, ...]
    every_build: Mapping[str, frozenset[Minor]]
    cuda_builds: Mapping[str, frozenset[Minor]]
    standard: Mapping[str, frozenset[Minor]] = MappingProxyType({})

    @property
    def releases(self) -> tuple[Minor, ...]:
        """The torch versions in the tables, oldest first."""
        return tuple(source.version for source in self.sources)

    def known(self, symbol: str, accelerator: AcceleratorKind | None) -> frozenset[Minor]:
        """Return the releases whose builds for `accelerator` are known to have `symbol`."""
        anywhere = self.every_build.get(symbol, frozenset())
        is_tabled = accelerator is not None and accelerator.has_symbols
        return anywhere | self.cuda_builds.get(symbol, frozenset()) if is_tabled else anywhere


def is_torch_symbol(symbol: str) -> bool:
    """Whether only torch would define a symbol: its namespace, or its prefix for C, is torch's."""
    return bool((CPP_SYMBOL if symbol.startswith("_Z") else C_SYMBOL).match(symbol))


def missing(symbols: Iterable[str], torch: Minor, accelerator: AcceleratorKind | None = None) -> frozenset[str]:
    """Return those of `symbols` that are torch's and that this release's builds for `accelerator` lack.

    The tables do not have the builds for every accelerator: for the others, a symbol can be missing only if another
    release has it in every build.
    """
    table = tables()
    is_tabled = accelerator is None or accelerator.has_symbols
    return frozenset(
        symbol
        for symbol in symbols
        if is_torch_symbol(symbol)
        and torch not in table.known(symbol, accelerator)
        and (is_tabled or symbol in table.every_build)
    )


# ---------------------------------------------------------------- the files


@functools.cache
def tables(folder: Path = FOLDER) -> Tables:
    """Return the tables, read from a folder."""
    sources = _read_sources(folder)
    found = Tables(sources, {}, {}, {})
    c_text = (folder / C_TABLE).read_text(encoding="utf-8")
    cpp_text = lzma.decompress((folder / CPP_TABLE).read_bytes()).decode()
    releases = functools.cache(lambda text: frozenset(_between(text, found.releases)))
    into = {"every": found.every_build, "cuda": found.cuda_builds, "standard": found.standard}
    standard = folder / STANDARD_TABLE
    standard_text = standard.read_text(encoding="utf-8") if standard.is_file() else ""
    for line in (*c_text.splitlines(), *cpp_text.splitlines(), *standard_text.splitlines()):
        name, builds, ranges = line.split("\t")
        into[builds][name] = releases(ranges)  # type: ignore[index]  # read-only from here on
    return found


def records(folder: Path = FOLDER) -> Mapping[str, Sha256]:
    """Return the sha256 of the RECORD in each wheel of torch that was read, by its file name."""
    return {file: sha256 for source in _read_sources(folder) for file, sha256 in source.records}


def _read_sources(folder: Path) -> tuple[Source, ...]:
    listed = parse((folder / RELEASES).read_bytes())["release"]
    return tuple(
        Source(Minor.parse(one["version"]), one["patch"], tuple(one["wheels"]), tuple(one.get("records", {}).items()))
        for one in listed
    )


def _between(text: str, releases: Sequence[Minor]) -> Iterator[Minor]:
    """Yield the releases in a text such as `2.6-2.8,2.10`."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from (one for one in releases if Minor.parse(first) <= one <= Minor.parse(last or first))


# ---------------------------------------------------------------- the symbols of Python

# `python_symbols.tsv.xz` has a row for each symbol: its name, and the Pythons that have it, such as `3.10 3.11`, or
# `libc` for those of glibc, with which each Python is linked. Additions of newer Pythons to the limited API come from
# abi3info. A maintainer writes the table with `python -m tests.maintain.python_table`.
PYTHON_SYMBOLS = Path(__file__).with_name("python_symbols.tsv.xz")
LIBC = "libc"
# Only a free-threaded build has these, for the reference counts that its headers put into each extension (object.h,
# refcount.h, moduleobject.h under Py_GIL_DISABLED).
FREE_THREADED = frozenset({
    "_Py_DecRefShared", "_Py_DecRefSharedDebug", "_Py_MergeZeroLocalRefcount", "PyUnstable_Module_SetGIL",
})  # fmt: skip


@functools.cache
def _rows() -> Mapping[str, str]:
    rows = lzma.decompress(PYTHON_SYMBOLS.read_bytes()).decode().splitlines()
    return dict(row.split("\t") for row in rows)


@functools.cache
def _table() -> Mapping[str, frozenset[Minor]]:
    read = functools.cache(lambda pythons: frozenset(map(Minor.parse, pythons.split())))  # few differ
    return {name: read(pythons) for name, pythons in _rows().items() if pythons != LIBC}


@functools.cache
def _added() -> Mapping[str, Minor]:
    """Return the Python that added each symbol to the limited API, but for those of some systems or builds."""
    known = {**abi3info.FUNCTIONS, **abi3info.DATAS}
    return {symbol.name: Minor(one.added.major, one.added.minor) for symbol, one in known.items() if not one.ifdef}


@functools.cache
def list_pythons() -> frozenset[Minor]:
    """Return the Pythons whose symbols are all in the table."""
    return frozenset().union(*_table().values())


def missing_in(python: Minor, symbols: Iterable[str], *, is_free: bool) -> frozenset[str]:
    """Return which of the symbols, all of them of Python, a Python lacks.

    Of a Python that is not in the table, only what a newer one added to the limited API is known to be missing.
    """
    table, added = _table(), _added()
    is_known = python in list_pythons()

    def lacks(symbol: str) -> bool:
        if symbol in FREE_THREADED:
            return not is_free
        if is_known:
            return (symbol in table or symbol in added) and python not in table.get(symbol, ())
        return added.get(symbol, python) > python

    return frozenset(filter(lacks, symbols))


def is_in_every_process(symbol: str) -> bool:
    """Whether some Python exports it, or the C library that each Python is linked with, as far as the tables know."""
    return symbol in FREE_THREADED or symbol in _rows() or symbol in _added()
