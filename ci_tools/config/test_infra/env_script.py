"""Reads the variables that a shell script exports as plain text; all other lines are reported, never guessed."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENS = frozenset({"case", "for", "if", "select", "until", "while"})
CLOSES = frozenset({"done", "esac", "fi"})
HARMLESS = re.compile(r"set( [-+][a-zA-Z]+( pipefail)?)+")  # options of the shell itself
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Exported(NamedTuple):
    """One line of a script, with the variables it exports; none if only a shell could evaluate the line."""

    line: int  # from 1
    text: str
    variables: tuple[tuple[str, str], ...] = ()


def parse_exports(script: str) -> Iterator[Exported]:
    """Yield each effective line of a shell script, with the variables it exports on every machine.

    A line inside a condition, a loop or a function exports nothing here: it may not run.
    """
    depth = 0
    for number, text in _lines(script):
        words = text.replace(";", " ; ").split()
        opened = sum(word in OPENS or word.endswith("{") for word in words)  # a function ends its line with a brace
        closed = sum(word in CLOSES or word == "}" for word in words)
        plain = not (depth or opened or closed)
        depth = max(depth + opened - closed, 0)  # `done` may be an argument of something
        yield Exported(number, text, _variables(text) if plain else ())


def _lines(script: str) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of the script, continued lines joined, without comments and shell options."""
    started = 0
    parts: list[str] = []
    for number, line in enumerate(script.splitlines(), 1):
        started = started if parts else number
        parts.append(line.removesuffix("\\"))
        if line.endswith("\\"):
            continue
        text = " ".join(part.strip() for part in parts).strip()
        parts = []
        if text and not text.startswith("#") and not HARMLESS.fullmatch(text):
            yield started, text


def _variables(line: str) -> tuple[tuple[str, str], ...]:
    """Return the variables of a line that only exports plain text; empty for any other line."""
    if re.search(r"[$`]", re.sub(r"'[^']*'", "", line)):  # in single quotes nothing is expanded
        return ()
    words = _words(line)
    pairs = [word.partition("=") for word in words[1:]]
    is_export = words[:1] == ["export"] and all(equals and NAME.fullmatch(name) for name, equals, _ in pairs)
    return tuple((name, value) for name, _, value in pairs) if is_export else ()


def _words(line: str) -> list[str]:
    """Return a line's words as a shell splits them; empty unless it is one simple command."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)  # splits off ; and &, unlike shlex.split
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError:
        return []
    return [] if any(re.fullmatch(r"[();<>|&]+", word) for word in words) else words
