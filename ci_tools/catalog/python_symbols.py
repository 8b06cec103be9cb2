"""The symbols that each Python exports to extensions, read from CPython's own libraries on Linux.

`python_symbols.tsv.xz` has a row for each symbol: its name, and the Pythons that have it, such as `3.10 3.11`, or
`libc` for those of glibc, with which each Python is linked. Additions of newer Pythons to the limited API come
from abi3info. A maintainer writes the table with `python -m tests.maintain.python_table`.
"""

from __future__ import annotations

import functools
import lzma
from pathlib import Path
from typing import TYPE_CHECKING

import abi3info  # type: ignore[import-untyped] # it has no types

from ci_tools.model.versions import Minor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
