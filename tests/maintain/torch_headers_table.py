"""Writes the table of torch's headers: `python -m tests.maintain.torch_headers_table`, for maintainers.

It reads the list of files of each wheel that `torch.toml` names for its headers, about a megabyte of each.
"""

from __future__ import annotations

import lzma
import os
import sys
from collections.abc import Mapping

from ci_tools import catalog
from ci_tools.catalog import TORCH_HEADERS
from ci_tools.machine.package_index import files_of, users_index
from ci_tools.machine.remote_wheel import remote_wheel

FOLDER = "torch/include/"


def write_headers(found: Mapping[str, frozenset[str]]) -> str:
    """Return the text of the table; `found` has the headers of each release."""
    names = sorted(frozenset[str]().union(*found.values()))
    rows = (f"{name}\t{''.join(str(int(name in has)) for has in found.values())}" for name in names)
    return "\n".join((" ".join(found), *rows, ""))


def read_headers(file: str) -> frozenset[str]:
    """Return the headers in a wheel on the package index."""
    with files_of("torch", users_index(os.environ)) as (session, addresses):  # noqa: SIM117 - the second asks the first
        with remote_wheel(session, addresses[file]) as wheel:
            return frozenset(name.removeprefix(FOLDER) for name in wheel.names if name.startswith(FOLDER))


def main() -> None:
    """Read all releases of the catalog into the table."""
    releases = catalog.load().torch
    found = {str(one.version): read_headers(one.headers.file) for one in releases.values() if one.headers}
    TORCH_HEADERS.write_bytes(lzma.compress(write_headers(found).encode(), preset=9))
    sys.stdout.write(f"{TORCH_HEADERS.stat().st_size:,} bytes for {len(found)} releases\n")


if __name__ == "__main__":
    main()
