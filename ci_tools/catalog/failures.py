"""Finds the cause of a failure in what the failed command printed, by the tables *_failures.toml.

The words that come first decide: what follows a missing header or a module is its consequence.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from string import Template
from typing import Any, NamedTuple

from ci_tools.catalog.providers import distribution_of
from ci_tools.catalog.tables import read

BUILD, INSTALL, TRIAL = "build_failures", "install_failures", "trial_failures"
MAX_READ = 1 << 20  # characters of the output's end: a million take 2 s
MAX_QUOTED: int = read("pasted_text")["quoted"]  # lines
LONG = re.compile(r"^(.{1000}).+", re.MULTILINE)  # a line's rest: the time of a search grows with its square
COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# As long as the text, so that places in both are the same.
PLAIN_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d`", "''\"\"'")
# Errors in files that are compiled to see whether it can be done: of autoconf, numpy, CMake, Meson and setuptools. The
# temporary files of nvcc (tmpxft_) are of real compilations.
PROBES = re.compile(r"conftest|configtest|CMakeScratch|CMakeTmp|meson-private|/tmp/tmp(?!xft)|has_function")


class Cause(NamedTuple):
    """Why a command fails: the words that show it, and what helps."""

    name: str
    signs: tuple[re.Pattern[str], ...]
    says: str
    hint: str
    tool: str
    example: str
    late: int  # it counts only if no cause with a lower number is found


class Explained(NamedTuple):
    """A cause that was found in an output: in words, with the line that shows it."""

    name: str
    says: str
    hint: str
    quote: str
    line: int  # the number of the quote's first line, from 1
    page: str  # of the documentation, with its anchor


def explain(output: str, table: str = BUILD) -> Explained | None:
    """Return the first cause in the output of a failed command; None if it is not known."""
    whole = LONG.sub(r"\1", COLOURS.sub("", output))
    shown = whole[-MAX_READ:]
    text = shown.translate(PLAIN_QUOTES)
    causes = read_causes(table)
    found = [
        (cause.late, match.start(), cause, match) for cause in causes for match in find_first(cause.signs, text, PROBES)
    ]
    if not found:
        return None
    _, start, cause, match = min(found, key=lambda one: one[:2])  # at the same place: the first of the table
    begin = text.rfind("\n", 0, start) + 1
    line = whole.count("\n", 0, len(whole) - len(shown) + begin) + 1
    names = {name: " ".join(value.split()) for name, value in match.groupdict(default="").items()}
    names = {"package": distribution_of(names.get("module", "")), **names}  # that has its module or header
    says, hint = Template(cause.says).safe_substitute(names), Template(cause.hint).safe_substitute(names)
    return Explained(cause.name, says, hint, quote_lines(shown, begin, match.end()), line, page_of(table, cause.name))


@functools.cache
def read_causes(table: str = BUILD) -> tuple[Cause, ...]:
    """Return the causes of a table for which a config can do something, in its order."""
    tables = read(table)
    return tuple(_read(name, row) for name, row in tables.items() if "hint" in row)


def page_of(table: str, name: str) -> str:
    """Return the place of a cause in the documentation."""
    return f"reference/{table.replace('_', '-')}.md#{name}"


def find_first(signs: Iterable[re.Pattern[str]], text: str, probes: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the first match of each sign that is in no line about a probe."""
    for sign in signs:
        matches = (one for one in sign.finditer(text) if not probes.search(quote_lines(text, one.start(), one.end())))
        yield from itertools.islice(matches, 1)


def quote_lines(text: str, start: int, end: int, most: int = MAX_QUOTED) -> str:
    """Return the lines of a place in a text, at most so many."""
    begin, stop = text.rfind("\n", 0, start) + 1, text.find("\n", max(end, start + 1) - 1)
    return "\n".join(text[begin : stop if stop >= 0 else None].splitlines()[:most])


def _read(name: str, row: Mapping[str, Any]) -> Cause:
    signs = tuple(re.compile(sign.replace(" ", r"\s+"), re.MULTILINE) for sign in row["signs"])
    return Cause(name, signs, row["says"], row["hint"], row["tool"], row["example"].strip("\n"), row.get("late", 0))
