"""Matches paths with patterns in the syntax of gitignore, as a config names files."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SEGMENT = r"(?:\*\*|(?!\*\*|\.{1,2}(?:/|\Z))[\w.+*?-]+)"
PLAIN = re.compile(rf"/?{SEGMENT}(?:/{SEGMENT})*/?", re.ASCII)  # no brackets, no `!`, no backslash, no blank
ODD = re.compile(r"\*\*/(?:\*\*|\Z)")  # nobody writes it: pathspec says what it means
WILD = {"*": "[^/]*", "?": "[^/]"}


def is_pattern(text: str) -> bool:
    """Whether a pattern can match a file; `/` and blank text match none."""
    if _plain_expression(text):
        return True
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - see matcher_of

    try:
        return any(pattern.include is not None for pattern in GitIgnoreSpec.from_lines([text]).patterns)
    except (re.error, ValueError):
        return False


def matcher_of(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return what says whether one of the patterns matches a file, a path with forward slashes.

    Plain patterns are translated here; pathspec reads all others, and only then a plan waits for it to be loaded.
    """
    patterns = tuple(patterns)
    expressions = [_plain_expression(pattern) for pattern in patterns]
    if all(expressions):
        found = re.compile("|".join(expressions) or r"(?!)", re.DOTALL)
        return lambda name: found.fullmatch(name) is not None
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - few configs need it

    return GitIgnoreSpec.from_lines(patterns).match_file


@functools.cache
def _plain_expression(pattern: str) -> str:
    """Return the regular expression of a plain pattern, "" for one that is not plain (gitignore(5), pattern format)."""
    if not PLAIN.fullmatch(pattern) or ODD.search(pattern):
        return ""
    segments = pattern.strip("/").split("/")
    is_anchored = "/" in pattern.rstrip("/")
    # A pattern that names a folder matches all below it; one that ends in a slash names a folder only.
    end = "/.*" if pattern.endswith("/") else "(?:/.*)?"
    if segments[-1] == "**":
        segments, end = segments[:-1], "/.*" if len(segments) > 1 else ".*"
    parts = ["(?:.*/)?" if segment == "**" else f"{_segment(segment)}/" for segment in segments]
    body = "".join(parts).removesuffix("/")
    return f"{'' if is_anchored else '(?:.*/)?'}{body}{end}"


def _segment(text: str) -> str:
    return "".join(WILD.get(character) or re.escape(character) for character in text)
