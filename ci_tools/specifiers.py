"""Version specifiers that others wrote (PEP 440), refused where they cannot be compared with any version."""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

__all__ = ["parse_specifiers"]


def parse_specifiers(text: str) -> SpecifierSet:
    """Return the set of specifiers that a text is; raise ValueError where it is none.

    `SpecifierSet` reads its versions at the first comparison only, and raises ValueError there for a number of more
    digits than Python converts.
    """
    specifiers = SpecifierSet(text)
    specifiers.contains("0")
    return specifiers
