"""Answers what a build asks about the compiler that made the cell's Python.

Its kind and its age differ between builders of one cell. So it is tried twice, as old as a builder's can be and as
new: what both lead to depends on neither.
"""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.cell import machine_name
from ci_tools.observe.inside.facts import FACTS

# The old and the new text of `platform.python_compiler()`: of python.org, manylinux, uv, Apple and distributions.
TEXTS = {
    "gcc": ("GCC 8.5.0 20210514 (Red Hat 8.5.0-28)", "GCC 16.1.0"),
    "clang": ("Clang 12.0.0 (clang-1200.0.32.29)", "Clang 23.1.0 "),
    "msvc": ("MSC v.1900 64 bit ({machine})", "MSC v.1960 64 bit ({machine})"),
}
KINDS = {"macos": "clang", "windows": "msvc"}  # on Linux it is one of two


def compiler_of_python(*_: object) -> str:
    """Return `platform.python_compiler()` of the cell's Python."""
    kind = KINDS.get(FACTS.ask("os"), "")
    kind = kind or ("clang" if FACTS.suppose("clang has compiled Python") else "gcc")
    old, new = TEXTS[kind]
    return (new if FACTS.suppose("a new compiler has compiled Python") else old).format(machine=machine_name())


class Version(str):
    """`sys.version`, in which some projects look for the compiler of Python."""

    __slots__ = ()

    def __contains__(self, part: object) -> bool:
        return str.__contains__(self, part) or (FACTS.asks() and part in self.whole())  # type: ignore[operator]

    def find(self, *args: Any) -> int:
        """Return where a part starts, or -1."""
        found = str.find(self, *args)
        return self.whole().find(*args) if found < 0 and FACTS.asks() else found

    def whole(self) -> str:
        """Return the text with the compiler."""
        return f"{self} [{compiler_of_python()}]"
