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

from ci_tools.catalog.failures import INSTALL, PLAIN_QUOTES, find_first, page_of, quote_lines
from ci_tools.catalog.tables import read
from ci_tools.errors import SEE, InputError

MAX_BYTES = 1 << 24  # of the end of a file
LATE = 2  # what counts later than this is harmless on its own
UNKNOWN, VAGUE = 8, 9  # a line with an error whose cause is not known, and what says only that something failed
TEXT = read("pasted_text")
PATTERNS = {name: re.compile(words) for name, words in TEXT.items() if isinstance(words, str)}


class ErrorAnswer(NamedTuple):
    """A cause in words, or the first error if none is known, with what mends it or what to look at, and its lines."""

    name: str
    known: bool
    quote: str
    line: int
    says: str
    why: str
    mend: str
    look: str
    lines: str  # the kind of those that the page offers
    cuda: str


@functools.cache
def read_rows() -> tuple[dict[str, Any], ...]:
    """Return the causes as the page has them, with the signs in Python's notation."""
    return tuple(
        {
            "name": name,
            "late": VAGUE if row.get("vague") else int(row.get("late", 0)),
            "signs": [sign.replace(" ", r"\s+") for sign in row["signs"]],
            **{word: row.get(word, "") for word in ("says", "why", "mend", "look", "lines", "cuda")},
        }
        for name, row in read(INSTALL).items()
    )


def describe_causes() -> list[dict[str, Any]]:
    """Return the causes as JavaScript reads them."""
    named = functools.partial(re.sub, r"\(\?P=(\w+)", r"(?:\\k<\1>")
    return [{**row, "signs": [named(sign.replace("(?P<", "(?<")) for sign in row["signs"]]} for row in read_rows()]


def explain(text: str) -> ErrorAnswer | None:
    """Return the cause that decides, as docs/how-to/explain-an-error.md has it; None if no line has an error."""
    lines = plain_lines(text)
    plain = "\n".join(line for _, line in lines)
    over = max((one.end() for one in PATTERNS["recovered"].finditer(plain)), default=0)
    found = [
        (_rank(row["late"], plain, match), plain.count("\n", 0, match.start()), at, match)
        for at, row in enumerate(read_rows())
        for match in find_first(_signs(at), plain, PATTERNS["probes"])
        if match.start() >= over
    ]
    found.sort(key=lambda one: one[:3])
    if found and LATE < found[0][0] < UNKNOWN:
        _, place, _, match = found[0]
        if VAGUE in {one[0] for one in found} or PATTERNS["failing"].search(plain, match.end()):
            found = [one for one in found if one[0] >= UNKNOWN and one[1] != place]
    if not found:
        return None
    _, place, at, match = found[0]
    row = read_rows()[at]
    values = {name: " ".join((value or "").split()) for name, value in match.groupdict().items()}
    values["library"] = values.get("library") or "the library"
    filled = functools.partial(re.sub, r"\$(\w+)", lambda one: values.get(one[1], one[0]))
    words = {word: filled(row[word]) for word in ("says", "why", "mend", "look")}
    quote = quote_lines(plain, match.start(), match.end())
    known, line = row["late"] < UNKNOWN, lines[place][0]
    return ErrorAnswer(row["name"], known, quote, line, **words, lines=row["lines"], cuda=row["cuda"])


def plain_lines(text: str) -> list[tuple[int, str]]:
    """Return the last lines of a text and their numbers, without colours and odd spaces; what uv wraps is one line."""
    whole = re.split("\r\n?|\n", text)
    lines: list[tuple[int, str]] = []
    wrapped = False
    for number, raw in enumerate(whole[-TEXT["lines"] :], max(len(whole) - TEXT["lines"], 0) + 1):
        line = PATTERNS["spaces"].sub(" ", PATTERNS["escapes"].sub("", raw)).translate(PLAIN_QUOTES)[: TEXT["width"]]
        rest = PATTERNS["rest"].match(line) if wrapped else None
        if rest and len(lines[-1][1]) < TEXT["joined"]:
            first, before = lines.pop()
            lines.append((first, before.rstrip(" ") + ("" if before.endswith("-") else " ") + line[rest.end() :]))
        else:
            lines.append((number, line))
            wrapped = bool(PATTERNS["head"].match(line))
    return lines


@functools.cache
def _signs(at: int) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(sign, re.MULTILINE | re.ASCII) for sign in read_rows()[at]["signs"])


def _rank(late: int, plain: str, match: re.Match[str]) -> int:
    """Return how late a match counts: in a warning a strong sign is late, and a late one is last."""
    if "\n" in match[0]:
        return late
    if _are("harmless", match, plain):
        return late + 3
    return late + (2 if late else 1) * _are("warning", match, plain)


def _are(kind: str, match: re.Match[str], plain: str) -> bool:
    """Return whether the lines of a match are of a kind that pasted_text.toml has."""
    return bool(PATTERNS[kind].search(quote_lines(plain, match.start(), match.end())))


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
    page = f"{SEE}{page_of(INSTALL, answer.name if answer else '').rstrip('#')}\n"
    if answer is None:
        return f"There is no line with an error in it.\n{page}", False
    place = f"{'line ' if name == '-' else f'{name}:'}{answer.line}: {' '.join(answer.quote.split())}"
    return "\n".join((place, "", *describe(answer), page)), answer.known


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
