"""Versions and version specifiers that others wrote (PEP 440), read in one place: what is none is None or ValueError.

`packaging` raises InvalidVersion for most of what is no version, and a plain ValueError for a number of more digits
than Python converts (`sys.int_info.default_max_str_digits`). Who catches only the first has a traceback for the second.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["parse_requirement", "parse_specifiers", "parse_version", "read_requirement", "read_version"]

OFTEN = 1 << 12  # versions that are read again and again, as those of a project are for each of its pages
MOST_SHOWN = 40  # characters of what is no version


def read_version(text: str) -> Version | None:
    """Return the version that a text is; None where it is none."""
    try:
        return parse_version(text)
    except ValueError:
        return None


@functools.lru_cache(maxsize=OFTEN)
def parse_version(text: str) -> Version:
    """Return the version that a text is; raise ValueError where it is none."""
    try:
        return Version(text)
    except ValueError:
        msg = f'"{text[:MOST_SHOWN]}" is not a version (PEP 440)'
        raise ValueError(msg) from None


def parse_specifiers(text: str) -> SpecifierSet:
    """Return the set of specifiers that a text is; raise ValueError where it is none.

    `SpecifierSet` reads its versions at the first comparison only, and raises ValueError there for a number of more
    digits than Python converts.
    """
    specifiers = SpecifierSet(text)
    specifiers.contains("0")
    return specifiers


def read_requirement(text: str) -> Requirement | None:
    """Return the requirement that a text is (PEP 508), None where it is none; no version in it is read."""
    from packaging import requirements  # noqa: PLC0415 - a tenth of a plan's time

    try:
        return requirements.Requirement(" ".join(text.split()))
    except ValueError:
        return None


def parse_requirement(text: str) -> Requirement:
    """Return the requirement that a text is (PEP 508); raise ValueError where it is none, or names no version."""
    from packaging import requirements  # noqa: PLC0415 - see above

    requirement = requirements.Requirement(" ".join(text.split()))
    requirement.specifier.contains("0")  # see parse_specifiers
    return requirement
