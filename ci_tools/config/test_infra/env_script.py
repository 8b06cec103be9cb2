"""The variables that a shell script exports as plain text; all else it does is named, never guessed at."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Exported", "parse_exports"]

OPENS = frozenset({"case", "for", "if", "select", "until", "while"})
CLOSES = frozenset({"done", "esac", "fi"})
HARMLESS = re.compile(r"set( [-+][a-zA-Z]+( pipefail)?)+")  # how the shell itself behaves
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Exported(NamedTuple):
    """One line of a script: the variables it exports, or none where its text says no more than a shell would know."""

    line: int  # from 1
    text: str
    variables: tuple[tuple[str, str], ...] = ()


def parse_exports(script: str) -> Iterator[Exported]:
    """Yield each line of a shell script that does anything, with what it exports whatever the machine is like.

    A line within a condition, a loop or a function exports nothing here: whether it runs is not known.
    """
    depth = 0
    for number, text in _lines(script):
        words = text.replace(";", " ; ").split()
        opened = sum(word in OPENS or word.endswith("{") for word in words)
        closed = sum(word in CLOSES or word == "}" for word in words)
        plain = not (depth or opened or closed)
        depth = max(depth + opened - closed, 0)
        yield Exported(number, text, _variables(text) if plain else ())


def _lines(script: str) -> Iterator[tuple[int, str]]:
    """Yield the script's lines with their numbers, continued ones as one, without comments and what is harmless."""
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
    """Return what a line exports, where it is nothing but an export of plain text."""
    if re.search(r"[$`]", re.sub(r"'[^']*'", "", line)):
        return ()
    words = _words(line)
    pairs = [word.partition("=") for word in words[1:]]
    is_export = words[:1] == ["export"] and all(equals and NAME.fullmatch(name) for name, equals, _ in pairs)
    return tuple((name, value) for name, _, value in pairs) if is_export else ()


def _words(line: str) -> list[str]:
    """Return a line's words as a shell has them; none where it is more than one simple command."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError:
        return []
    return [] if any(re.fullmatch(r"[();<>|&]+", word) for word in words) else words
