"""Parses TOML from untrusted sources: every mistake is one InputError, and no file takes minutes to parse."""

from __future__ import annotations

import sys
from typing import Any

from ci_tools.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["parse_toml"]

MOST_CHARACTERS = 4 << 20  # the longest real Cargo.toml and pyproject.toml files have about 100,000
# tomllib stores every prefix of a dotted key, so a key of n parts takes memory in n²: 50,000 parts take 10 GB.
MOST_PREFIXES = 25_000_000


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Return the content of a TOML file called `name` in messages; raise InputError if it is not TOML."""
    if len(text) > MOST_CHARACTERS:
        msg = f"{name} has {len(text):,} characters, expected a TOML file of at most {MOST_CHARACTERS:,}"
        raise InputError(msg)
    if sum(line.count(".") ** 2 for line in text.splitlines()) > MOST_PREFIXES:
        msg = f"{name}: its lines have more dots than a parser of TOML bears, expected keys of a few parts"
        raise InputError(msg)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also an integer with more digits than Python converts
        msg = f"{name}: this is not TOML: {str(error).partition(';')[0]}"
        raise InputError(msg) from error
