"""Matches paths with patterns in the syntax of gitignore, in time that grows with the path times the pattern.

A pattern becomes a regular expression that never looks for another place of what it has found: each part between two
stars is taken where it first fits, which is never worse than a later place (as in `fnmatch.translate`).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

# What stands in a segment: an escaped character, a set such as [!a-z], a star, or a character.
TOKEN = re.compile(r"\\(?P<escaped>.)|\[(?P<set>(?:[!^].|[^!^])[^\]]*)\]|(?P<star>\*+)|(?P<char>[^\\\[])", re.DOTALL)
RANGE = re.compile(r"(?P<first>.)-(?P<last>.)|.", re.DOTALL)
FOLDER = "folder{n}"  # the group that matches if a folder above the file is named, not the file itself
ENDS = "(?![^/])"  # of a segment
LONGEST = 1 << 14  # letters of a pattern, four times those of a path: `re` takes their square to compile some
NEXT, LAST = "(?:.*?/)??", "(?:.*/)?"  # any folders, up to the first or the last place where what follows fits


class PathRule(NamedTuple):
    """One line: whether what it matches is included, and the expression of its paths with a place for a number."""

    is_included: bool
    expression: str


def is_pattern(text: str) -> bool:
    """Whether a pattern can match a file; `/` and blank text match none."""
    return _read_rule(text) is not None


@functools.lru_cache(256)
def _compile(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    rules = [rule for rule in map(_read_rule, patterns) if rule]
    texts = [rule.expression.replace("{n}", f"_{number}") for number, rule in enumerate(rules)]
    if all(rule.is_included for rule in rules):
        found = re.compile("|".join(texts) or r"(?!)", re.DOTALL)
        return lambda name: found.match(name) is not None
    expressions = [re.compile(text, re.DOTALL) for text in texts]
    return lambda name: _decide(rules, [expression.match(name) for expression in expressions])


def matcher_of(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return what says whether the patterns match a file, a path with forward slashes."""
    return _compile(tuple(patterns))


def _decide(rules: Sequence[PathRule], found: Sequence[re.Match[str] | None]) -> bool:
    """Return whether rules include a file: the last one that names the file itself decides, else the last of all."""
    said = [(not _is_below(match), number) for number, match in enumerate(found) if match]
    return bool(said) and rules[max(said)[1]].is_included


def _is_below(match: re.Match[str]) -> bool:
    """Whether a folder above the file is what a pattern names."""
    return any(group.startswith("folder") and text for group, text in match.groupdict().items())


@functools.lru_cache(1024)
def _read_rule(text: str) -> PathRule | None:
    """Return the rule of a line (gitignore(5), pattern format); None if it matches no file."""
    line = text if text.endswith("\\ ") else text.rstrip()
    if line in {"", "/", "!"} or line.startswith("#") or len(line) > LONGEST:
        return None
    segments = line.removeprefix("!").split("/")
    if segments[0] and not any(segments[1:]) and len(segments) <= len(("name", "")):
        segments.insert(0, "**")
    elif not segments[0]:
        del segments[0]
    mark = "/" if segments[-1] else f"(?P<{FOLDER}>/)"  # where what is below begins
    segments[-1] = segments[-1] or "**"
    try:
        return PathRule(not line.startswith("!"), _translate(segments, mark, itertools.count()))
    except ValueError:
        return None


def _translate(segments: list[str], mark: str, numbers: Iterator[int]) -> str:
    """Return the expression of a path; raise ValueError for what git takes for no pattern."""
    *blocks, last = [list(block) for is_gap, block in itertools.groupby(segments, "**".__eq__) if not is_gap] or [[]]
    if not last:
        return "." if mark == "/" else f".*?{mark}"
    first, after, said = (NEXT, LAST), "", []
    if segments[0] != "**":
        first = ("", "")
    for block in blocks:
        said.append(_take_first(f"{after}{first[0]}{_translate_block(block, numbers)}{ENDS}", numbers))
        first, after = (NEXT, LAST), "/"
    below = f"{after}{first[0]}{_translate_block(last, numbers)}"
    if segments[-1] == "**":
        return "".join([*said, below, mark])
    itself = f"{after}{first[1]}{_translate_block(last, numbers)}"
    return "".join([*said, rf"(?:{itself}\Z|{below}(?P<{FOLDER}>/))"])


def _take_first(expression: str, numbers: Iterator[int]) -> str:
    """Return an expression that keeps the first text it matches: Python 3.10 has no atomic groups."""
    name = f"part{{n}}_{next(numbers)}"
    return f"(?=(?P<{name}>{expression}))(?P={name})"


def _translate_block(segments: list[str], numbers: Iterator[int]) -> str:
    return "/".join("[^/]+" if segment == "*" else _translate_segment(segment, numbers) for segment in segments)


def _translate_segment(text: str, numbers: Iterator[int]) -> str:
    """Return the expression of a path's part; each piece between two stars is taken where it first fits."""
    pieces, at = [""], 0
    while at < len(text):
        token = TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"{text} ends inside a set or after a backslash")
        at = token.end()
        if token["star"]:
            pieces.append("")
        else:
            pieces[-1] += _translate_character(token)
    start, *middle, end = pieces if len(pieces) > 1 else (pieces[0], "")
    if len(pieces) == 1:
        return start
    taken = [_take_first(f"[^/]*?{piece}", numbers) for piece in middle]
    return "".join([start, *taken, "[^/]*", end, ENDS])


def _translate_character(token: re.Match[str]) -> str:
    """Return the expression of one character: `?`, a set, or itself."""
    if not token["set"]:
        return "[^/]" if token[0] == "?" else re.escape(token["escaped"] or token["char"])
    said = token["set"]
    body = said[1:] if said[0] in "!^" else said
    ranges = [(one["first"] or one[0], one["last"] or one[0]) for one in RANGE.finditer(body)]
    if any(first > last for first, last in ranges):
        raise ValueError(f"[{said}] has a range that ends before it begins")
    inside = "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in ranges)
    return f"(?!/)[{'^' if body != said else ''}{inside}]"
