"""Parses untrusted versions, specifiers and requirements (PEP 440, PEP 508); an invalid one gives None or ValueError.

`packaging` raises InvalidVersion for most invalid versions, but a plain ValueError for a number with more digits than
Python converts (`sys.int_info.default_max_str_digits`). Code that catches only the first fails on the second.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from packaging.specifiers import SpecifierSet
from packaging.version import Version

if TYPE_CHECKING:
    from packaging.requirements import Requirement

__all__ = ["parse_requirement", "parse_specifiers", "parse_version", "read_requirement", "read_version"]

OFTEN = 1 << 12  # cached versions: those of a project are parsed again for each of its pages
MOST_SHOWN = 40  # characters of an invalid version that a message repeats


def read_version(text: str) -> Version | None:
    """Return a text as a version; None if it is invalid."""
    try:
        return parse_version(text)
    except ValueError:
        return None


@functools.lru_cache(maxsize=OFTEN)
def parse_version(text: str) -> Version:
    """Return a text as a version; raise ValueError if it is invalid."""
    try:
        return Version(text)
    except ValueError as error:
        msg = f'"{text[:MOST_SHOWN]}" is not a version (PEP 440)'
        raise ValueError(msg) from error


def parse_specifiers(text: str) -> SpecifierSet:
    """Return a text as a set of specifiers; raise ValueError if it is invalid.

    `SpecifierSet` parses its versions only at the first comparison, and raises ValueError there for a number with more
    digits than Python converts.
    """
    specifiers = SpecifierSet(text)
    specifiers.contains("0")
    return specifiers


def read_requirement(text: str) -> Requirement | None:
    """Return a text as a requirement (PEP 508), None if it is invalid; the versions in it are not parsed."""
    from packaging import requirements  # noqa: PLC0415 - the import takes a tenth of a plan's time

    try:
        return requirements.Requirement(" ".join(text.split()))
    except ValueError:
        return None


def parse_requirement(text: str) -> Requirement:
    """Return a text as a requirement (PEP 508); raise ValueError if it, or a version in it, is invalid."""
    from packaging import requirements  # noqa: PLC0415 - see above

    requirement = requirements.Requirement(" ".join(text.split()))
    requirement.specifier.contains("0")  # see parse_specifiers
    return requirement
