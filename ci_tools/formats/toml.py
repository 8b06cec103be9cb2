"""Parses TOML from untrusted sources, and sets single keys of a pyproject.toml.

Every mistake in a file is one InputError, and no file takes minutes to parse.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from ci_tools.errors import InputError, Problem, RejectedInput

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from collections.abc import Callable

if TYPE_CHECKING:
    from ci_tools.model.versions import Minor

MAX_CHARACTERS = 4 << 20  # the longest real Cargo.toml and pyproject.toml files have about 100,000
# tomllib stores every prefix of a dotted key, so a key of n parts takes memory in n²: 50,000 parts take 10 GB.
MAX_PREFIXES = 25_000_000


PLACE = re.compile(r" \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")  # as tomllib says it


def parse_toml(text: str, name: str, numbers: Callable[[str], object] = float) -> dict[str, Any]:
    """Return the content of a TOML file called `name` in messages; raise InputError if it is not TOML.

    `numbers` makes the value of a number with a decimal point.
    """
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{name} has {len(text):,} characters, expected a TOML file of at most {MAX_CHARACTERS:,}")
    if sum(line.count(".") ** 2 for line in text.splitlines()) > MAX_PREFIXES:
        raise InputError(f"{name}: a key has more dotted parts than a TOML parser can read, expected a few")
    try:
        return tomllib.loads(text, parse_float=numbers)
    except (ValueError, RecursionError) as error:  # ValueError: also an integer with more digits than Python converts
        what = f"this is not TOML: {str(error).partition(';')[0]}"
        if place := PLACE.search(what):
            end = text.count("\n") + 1, len(text.rpartition("\n")[2]) + 1
            line, column = (place["line"], place["column"]) if place["line"] else end
            raise RejectedInput([Problem(f"{name}:{line}:{column}", what[: place.start()])]) from error
        raise InputError(f"{name}: {what}") from error


# ---------------------------------------------------------------- edits of a pyproject.toml
# Patterns find the place of an edit, and a parser checks that it changed that key only. A library that writes TOML
# (tomlkit 0.15) puts a new key at the end of its table: below the comment about the next table, which it so separates
# from that, and with the line end of another system.


def set_py_api(text: str, tag: str) -> str | None:
    """Return a pyproject.toml that sets scikit-build-core's `wheel.py-api` to the tag."""
    if re.search(r"^\s*(?:(?:wheel\.)?py-api\s*=|wheel\s*=\s*\{)", text, re.MULTILINE):
        return None
    keys = {"tool.scikit-build.wheel": "py-api", "tool.scikit-build": "wheel.py-api"}
    edited = _insert_key(text, {header: f'{key} = "{tag}"' for header, key in keys.items()})
    return edited if _sets_only(text, edited, ("tool", "scikit-build", "wheel", "py-api"), value=tag) else None


def tag_meson_limited_api(text: str) -> str | None:
    """Return a pyproject.toml in which meson-python tags its wheel for the limited API."""
    if re.search(r"^\s*limited-api\s*=", text, re.MULTILINE):
        return None
    edited = _insert_key(text, {"tool.meson-python": "limited-api = true"})
    return edited if _sets_only(text, edited, ("tool", "meson-python", "limited-api"), value=True) else None


def raise_requires_python(text: str, lowest: Minor) -> str | None:
    """Return a pyproject.toml that requires a newer Python; None unless `requires-python` is just a lower bound."""
    if not re.search(r"^\s*requires-python\s*=", text, re.MULTILINE):
        has_table = re.search(r"^\s*\[\s*project\s*\]", text, re.MULTILINE) and "requires-python" not in text
        edited = _insert_key(text, {"project": f'requires-python = ">={lowest}"'}) if has_table else text
    else:
        pattern = r"""^(\s*requires-python\s*=\s*)(["'])>=\s*3\.\d+\2"""
        edited = re.sub(pattern, rf"\1\2>={lowest}\2", text, flags=re.MULTILINE)
    return (
        edited
        if edited != text and _sets_only(text, edited, ("project", "requires-python"), value=f">={lowest}")
        else None
    )


def _sets_only(before: str, after: str, keys: tuple[str, ...], *, value: object) -> bool:
    """Whether an edit of a TOML file sets the value at `keys`, and changes no other value."""
    try:
        expected, found = parse_toml(before, "before"), parse_toml(after, "after")
        table = expected
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = value
    except (InputError, AttributeError, TypeError):  # not TOML, or a value in place of a table
        return False
    return found == expected


def _insert_key(text: str, keys: dict[str, str]) -> str:
    """Return a TOML file with a new line in the first of these tables that exists, else in the last one, appended."""
    for header, key in keys.items():
        found = re.search(rf"^[ \t]*\[[ \t]*{re.escape(header)}[ \t]*\][ \t]*(?:#.*)?$", text, re.MULTILINE)
        if found:
            return f"{text[: found.end()]}\n{key}{text[found.end() :] or chr(10)}"
    gap = "" if not text or text.endswith("\n") else "\n"
    header, key = list(keys.items())[-1]
    return f"{text}{gap}\n[{header}]\n{key}\n"
