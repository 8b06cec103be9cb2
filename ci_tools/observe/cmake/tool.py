"""Fetches the cmake that observes configure steps: pinned by the catalog, so every machine asks the same one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.catalog.pinned_tools import PinnedTool, open_tool
from ci_tools.errors import MachineError

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.machine.context import Outside

HOME = "cmake/data/"  # of cmake in its wheel
NEEDED = re.compile(rf"{HOME}(bin/cmake|share/cmake-[\d.]+/(Modules|Templates)/.*)")
CMAKE = PinnedTool("cmake", "cmake", f"{HOME}bin/cmake", NEEDED)


class Cmake(NamedTuple):
    """An unpacked cmake: its folder and its program."""

    folder: Path

    @property
    def program(self) -> Path:
        """The program."""
        return self.folder / CMAKE.program


def pinned_version() -> str:
    """Return the version of the pinned cmake."""
    return CMAKE.version


def open_cmake(outside: Outside) -> Cmake:
    """Return the pinned cmake; its wheel is fetched once from the user's package index and unpacked in the cache.

    Raises MachineError if the catalog has no cmake for this machine, or if the index does not answer.
    """
    try:
        return Cmake(open_tool(CMAKE, outside))
    except MachineError as error:
        msg = f"cmake's configure step cannot be observed: {error.message}"
        raise MachineError(msg, hint=error.hint, page=error.page) from error
