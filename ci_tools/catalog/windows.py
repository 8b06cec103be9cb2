"""The libraries that a Windows wheel may import and does not bring, by whose they are."""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from typing import NamedTuple

from ci_tools.catalog.tables import read


class WindowsLibraries(NamedTuple):
    """File names of libraries in lower case, patterns of names for all but those of Windows."""

    system: frozenset[str]
    api_sets: tuple[str, ...]
    python: tuple[str, ...]
    redistributable: tuple[str, ...]  # of Visual C++: an installer of its own, or a program, brings them
    debug: tuple[str, ...]
    torch: tuple[str, ...]
    driver: tuple[str, ...]
    accelerators: tuple[str, ...]

    def owner_of(self, library: str) -> str:
        """Return whose a library is, as the field of this table is called; "" if nobody's who is known."""
        name = library.lower()
        if name in self.system:
            return "system"
        fields = ("api_sets", "debug", "python", "redistributable", "torch", "driver", "accelerators")
        owners = (field for field in fields for pattern in getattr(self, field) if fnmatchcase(name, pattern))
        return next(owners, "")


@functools.cache
def windows_libraries() -> WindowsLibraries:
    """Return the table."""
    table = read("windows")
    names = table.pop("system").split()
    system = frozenset(name if "." in name and name.endswith(".drv") else f"{name}.dll" for name in names)
    return WindowsLibraries(system, **{key.replace("-", "_"): tuple(patterns) for key, patterns in table.items()})
