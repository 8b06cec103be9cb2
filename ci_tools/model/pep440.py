"""Parses untrusted versions, specifiers and requirements (PEP 440, PEP 508); an invalid one gives None or ValueError.

`packaging` raises InvalidVersion for most invalid versions, but a plain ValueError for a number with more digits than
Python converts (`sys.int_info.default_max_str_digits`). Code that catches only the first fails on the second.
"""

from __future__ import annotations

import functools
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OFTEN = 1 << 12  # cached versions: those of a project are parsed again for each of its pages
MAX_SHOWN = 40  # characters of an invalid version that a message repeats
ONE = r"(?:[<>=!~]=|[<>])[ ]*[0-9][\w.*+!]*"  # most specifiers: no `===`, no hyphen
PLAIN = re.compile(rf"([A-Z0-9](?:[\w.-]*[A-Z0-9])?)[ ]*((?:{ONE}(?:[ ]*,[ ]*{ONE})*)?)", re.ASCII | re.IGNORECASE)


class Required(NamedTuple):
    """The project that a requirement names, the versions it takes, and whether it holds in some environments only."""

    name: str  # normalized
    specifier: str
    has_marker: bool


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
        raise ValueError(f'"{text[:MAX_SHOWN]}" is not a version (PEP 440)') from error


def parse_specifiers(text: str) -> SpecifierSet:
    """Return a text as a set of specifiers; raise ValueError if it is invalid.

    `SpecifierSet` parses its versions only at the first comparison, and raises ValueError there for a number with more
    digits than Python converts.
    """
    specifiers = SpecifierSet(text)
    specifiers.contains("0")
    return specifiers


def parse_or_all(text: str) -> SpecifierSet:
    """Return a text as specifiers, those that admit every version if it is invalid."""
    try:
        return parse_specifiers(text)
    except ValueError:  # also raised for more digits than Python converts
        return parse_specifiers("")


def read_required(text: str) -> Required | None:
    """Return what a requirement (PEP 508) asks for, None if it is invalid; the versions in it are not parsed.

    One of a name and plain specifiers is read here: a plan does not wait for packaging's parser to be loaded.
    """
    if plain := PLAIN.fullmatch(text.strip()):
        with suppress(ValueError):
            return Required(canonicalize_name(plain[1]), str(SpecifierSet(plain[2])), has_marker=False)
    from packaging import requirements  # noqa: PLC0415 - see above

    try:
        found = requirements.Requirement(" ".join(text.split()))
    except ValueError:
        return None
    return Required(canonicalize_name(found.name), str(found.specifier), found.marker is not None)


def name_of_required(text: str) -> str:
    """Return the name of the project that a requirement asks for, or "" if it is not a requirement (PEP 508)."""
    found = read_required(text)
    return found.name if found else ""


def is_of_index(text: str) -> bool:
    """Whether a text is a valid requirement (PEP 508) that is looked for on an index, and not at an address."""
    try:
        return parse_requirement(text).url is None
    except ValueError:
        return False


def parse_requirement(text: str) -> Requirement:
    """Return a text as a requirement (PEP 508); raise ValueError if it, or a version in it, is invalid."""
    from packaging import requirements  # noqa: PLC0415 - see above

    requirement = requirements.Requirement(" ".join(text.split()))
    requirement.specifier.contains("0")  # see parse_specifiers
    return requirement
