"""Rows of a project's own catalog, as they are written in its file or its config."""

from __future__ import annotations

from typing import NamedTuple


class CatalogRow(NamedTuple):
    """One row that a project adds to the catalog, and where it is written."""

    table: str  # torch, cuda, rocm, xpu or python
    name: str  # the version: 2.16, or 3.16t
    content: str  # the row's other keys as JSON text, sorted
    where: str  # fatwheel.catalog.toml:3

    @property
    def title(self) -> str:
        """The name of what the row describes, such as `torch 2.16`."""
        return f"{TITLES.get(self.table, self.table)} {self.name}"


TITLES = {"torch": "torch", "cuda": "CUDA", "rocm": "ROCm", "xpu": "oneAPI", "python": "Python"}
