"""Finds the cause of what an installer, a compiler or a loader printed, by the catalog's install_failures.toml.

The finder's page does the same in JavaScript (script/errors.js); a test holds both to the same answers.
"""

from __future__ import annotations

import codecs
import functools
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.catalog.failures import INSTALL, page_of
from ci_tools.catalog.tables import read
from ci_tools.errors import DOCUMENTATION, InputError

MAX_BYTES = 1 << 24  # of the end of a file
MAX_LINES, MAX_WIDTH, MAX_JOINED, MAX_QUOTED = 5000, 1000, 4000, 3
ESCAPES = re.compile(r"(?:\x1b|\u2190)\[[0-9;?]*[A-Za-z]")
SPACES = re.compile("[\x00-\t\v-\x1f\x7f-\xa0\u1680\u180e\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]")
QUOTES = str.maketrans("\u2018\u2019\u201c\u201d`", "''\"\"'")
# uv wraps a sentence of its tree, or a hint, into lines that are indented.
HEAD = re.compile(" *(?:[\xd7x] |[\u251c\u2570]\u2500\u25b6 |['|]-> |(?:[\u2502|] +)?hint: )")
REST = re.compile(" *(?:[\u2502|] +| {4,})(?=[^ \u251c\u2570\u2502|'\\[])(?!hint: )")
PROBES = re.compile("conftest|configtest|CMakeScratch|CMakeTmp|meson-private|has_function")  # as in catalog.failures


class ErrorAnswer(NamedTuple):
    """A cause in words, and what mends it or what to look at; the lines that show it, and the number of the first."""

    name: str
    says: str
    why: str
    mend: str
    look: str
    lines: str  # the kind of those that the page offers
    cuda: str
    quote: str
    line: int


@functools.cache
def read_rows() -> tuple[dict[str, Any], ...]:
    """Return the causes as the page has them, with the signs in Python's notation."""
    words = ("says", "why", "mend", "look", "lines", "cuda")
    return tuple(
        {
            "name": name,
            "late": int(row.get("late", 0)),
            "signs": [sign.replace(" ", r"\s+") for sign in row["signs"]],
            **{word: row.get(word, "") for word in words},
        }
        for name, row in read(INSTALL).items()
    )


def describe_causes() -> list[dict[str, Any]]:
    """Return the causes as JavaScript reads them."""
    named = functools.partial(re.sub, r"\(\?P([<=])(\w+)", _name_group)
    return [{**row, "signs": [named(sign) for sign in row["signs"]]} for row in read_rows()]


def _name_group(found: re.Match[str]) -> str:
    return f"(?<{found[2]}" if found[1] == "<" else rf"(?:\k<{found[2]}>"


def explain(text: str) -> ErrorAnswer | None:
    """Return the cause that the first row knows of the first line that any row knows; None if no row does."""
    lines = plain_lines(text)
    plain = "\n".join(line for _, line in lines)
    found = [
        (row["late"], plain.count("\n", 0, match.start()), at, match)
        for at, row in enumerate(read_rows())
        for match in _matches(at, plain)
    ]
    if not found:
        return None
    _, place, at, match = min(found, key=lambda one: one[:3])
    row = read_rows()[at]
    values = {name: " ".join((value or "").split()) for name, value in {"library": "", **match.groupdict()}.items()}
    values["library"] = values["library"] or "the library"
    texts = {
        word: re.sub(r"\$(\w+)", lambda one: values.get(one[1], one[0]), row[word])
        for word in ("says", "why", "mend", "look")
    }
    quote = _quote(plain, match.start(), match.end())
    return ErrorAnswer(row["name"], **texts, lines=row["lines"], cuda=row["cuda"], quote=quote, line=lines[place][0])


def plain_lines(text: str) -> list[tuple[int, str]]:
    """Return the last lines of a text and their numbers, without colours and odd spaces; what uv wraps is one line."""
    whole = re.split("\r\n?|\n", text)
    lines: list[tuple[int, str]] = []
    wrapped = False
    for number, raw in enumerate(whole[-MAX_LINES:], max(len(whole) - MAX_LINES, 0) + 1):
        line = SPACES.sub(" ", ESCAPES.sub("", raw)).translate(QUOTES)[:MAX_WIDTH]
        rest = REST.match(line) if wrapped else None
        if rest and len(lines[-1][1]) < MAX_JOINED:
            first, before = lines.pop()
            lines.append((first, before.rstrip(" ") + ("" if before.endswith("-") else " ") + line[rest.end() :]))
        else:
            lines.append((number, line))
            wrapped = bool(HEAD.match(line))
    return lines


@functools.cache
def _signs(at: int) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(sign, re.MULTILINE | re.ASCII) for sign in read_rows()[at]["signs"])


def _matches(at: int, plain: str) -> list[re.Match[str]]:
    """Return the first match of each sign in lines that are about no probe of a build system."""
    found = (
        next((one for one in sign.finditer(plain) if not PROBES.search(_quote(plain, one.start(), one.end()))), None)
        for sign in _signs(at)
    )
    return [match for match in found if match]


def _quote(plain: str, start: int, end: int) -> str:
    """Return the lines of a place in a text, at most MAX_QUOTED."""
    begin, stop = plain.rfind("\n", 0, start) + 1, plain.find("\n", max(end, start + 1) - 1)
    return "\n".join(plain[begin : stop if stop >= 0 else None].split("\n")[:MAX_QUOTED])


def describe(answer: ErrorAnswer) -> tuple[str, str]:
    """Return in sentences what is wrong, and what mends it or what to look at, as the page does."""
    says = " ".join(f"{_capitalize(part)}." for part in (answer.says, answer.why) if part)
    helps = f"What mends it: {answer.mend}." if answer.mend else f"What mends it is not known. Look at {answer.look}."
    return says, helps


def _capitalize(text: str) -> str:
    """Return a sentence with its first letter large, unless it begins with a name, such as libc10.so."""
    return text[:1].upper() + text[1:] if re.match("[a-z']+ ", text) else text


def explain_file(name: str) -> tuple[str, bool]:
    """Return the answer to the text in a file, or in the standard input for -, and whether its cause is known."""
    answer = explain(_read_text(name))
    if answer is None:
        unknown = "No cause that is known is in it. Look at the first line with an error in it, not the last."
        return f"{unknown}\nSee {DOCUMENTATION}{page_of(INSTALL, '').rstrip('#')}\n", False
    place = f"{'line ' if name == '-' else f'{name}:'}{answer.line}: {' '.join(answer.quote.split())}"
    return "\n".join((place, "", *describe(answer), f"See {DOCUMENTATION}{page_of(INSTALL, answer.name)}", "")), True


def _read_text(name: str) -> str:
    """Return the end of a file's text; raise InputError if it has none."""
    try:
        with sys.stdin.buffer if name == "-" else Path(name).open("rb") as file:
            if file.seekable() and name != "-":
                file.seek(max(file.seek(0, os.SEEK_END) - MAX_BYTES, 0))
            data = file.read(MAX_BYTES)
    except OSError as error:
        msg = f"{name} cannot be read: {error.strerror}; expected a file with what was printed, or - for stdin"
        raise InputError(msg) from error
    is_wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell's > writes it
    text = data.decode("utf-16" if is_wide else "utf-8-sig", errors="replace")
    if "\0" in text or not text.strip():
        msg = f"{name} is {'no text' if text.strip() else 'empty'}, expected what was printed when it failed"
        raise InputError(msg)
    return text
