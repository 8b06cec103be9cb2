"""Says which headers each release of torch has. It asks nothing of a cell.

The first line of the catalog's table has the releases. Each other line is a header below `torch/include`, with a 1 for
each release that has it and a 0 for the others.
"""

from __future__ import annotations

import functools
import lzma
import posixpath

OF_HEADER = "torch's header "  # the start of a build's question: `torch's header ATen/CUDAGeneratorImpl.h`


class TorchHeaders:
    """The headers of every torch that was read."""

    def __init__(self) -> None:
        self.packed = b""

    def read(self, path: str) -> None:
        """Read the table's file, which is unpacked once somebody asks."""
        with open(path, "rb") as file:
            self.packed = file.read()

    @functools.cached_property
    def rows(self) -> dict[str, str]:
        """The rows, under "" the releases; a folder has a row as well."""
        first, *lines = lzma.decompress(self.packed).decode().splitlines()
        rows = dict(line.split("\t") for line in lines)
        for name, row in list(rows.items()):
            while name := posixpath.dirname(name):
                rows[name] = "".join(map(max, zip(row, rows.get(name, row), strict=True)))
        return {**rows, "": first}

    def has(self, torch: str, header: str) -> bool | None:
        """Whether a torch has a header or a folder of them; None if nobody knows."""
        releases = self.rows[""].split()
        row = self.rows.get(header, "0" * len(releases))
        if torch in releases:
            return row[releases.index(torch)] == "1"
        return row[0] == "1" if len({*row}) == 1 else None


HEADERS = TorchHeaders()
