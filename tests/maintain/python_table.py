"""Writes the table of Python's symbols: `python -m tests.maintain.python_table LIBRARY…`.

For maintainers. Each library is a `libpython3.X.so.1.0` of Linux, or one of glibc: libc.so.6, libm.so.6 and the loader.
Together they are the whole table.
"""

from __future__ import annotations

import lzma
import re
import sys
from pathlib import Path

from ci_tools.catalog.symbols import LIBC, PYTHON_SYMBOLS
from ci_tools.formats.binaries.elf import symbols

OF_PYTHON = re.compile(r"_?Py[A-Z_]")
VERSION = re.compile(r"python(3\.\d+)")


def main(paths: list[str]) -> None:
    """Read the libraries and write the table."""
    found: dict[str, set[str]] = {}
    for path in map(Path, paths):
        match = VERSION.search(path.name)
        with path.open("rb") as file:
            defined = symbols(file).defined
        found.setdefault(match[1] if match else LIBC, set()).update(
            filter(OF_PYTHON.match, defined) if match else defined
        )
    names = sorted({name for symbols in found.values() for name in symbols})
    rows = (f"{name}\t{' '.join(one for one in found if name in found[one])}\n" for name in names)
    PYTHON_SYMBOLS.write_bytes(lzma.compress("".join(rows).encode()))


if __name__ == "__main__":
    main(sys.argv[1:])
