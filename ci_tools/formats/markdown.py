"""Text that is safe to put into GitHub's Markdown, whatever it holds: it shows as itself, and does nothing."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OWNER", "code", "one_line", "output", "row", "size", "table_head", "text"]

# What Markdown, or GitHub in it, takes for more than text in the middle of a line. Each is written by its number: a
# backslash holds neither in a table, nor in an address, nor where the line is HTML.
SPECIAL = re.compile(r"[\\`*_{}\[\]()#!|~@:/^$=]|(?<=www)\.", re.IGNORECASE)
NAMING = frozenset("@#")  # GitHub links who and what they name, however written, unless an invisible space follows
# A user, or a team of an organization, and nothing else: only these are written so that GitHub tells them.
OWNER = re.compile(r"@[A-Za-z0-9](?:-?[A-Za-z0-9]){0,38}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,99})?")
UNITS = ("B", "kB", "MB", "GB")


def text(value: object) -> str:
    """Return a text that shows as itself in a table of Markdown: no markup, no HTML, no mention of anybody."""
    return SPECIAL.sub(lambda found: _escape_character(found) + "&#8203;" * (found[0] in NAMING), _plain(value))


def code(value: object) -> str:
    """Return a text as code in a table; GitHub looks for no names in it, so that it can be copied as it is."""
    return f"<code>{SPECIAL.sub(_escape_character, _plain(value))}</code>"


def _escape_character(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def _plain(value: object) -> str:
    return html.escape(one_line(value), quote=False)


def one_line(value: object) -> str:
    """Return a text as one line."""
    return "".join(char if char.isprintable() else " " for char in str(value))


def output(line: str) -> str:
    """Return a line of output as one in a `<pre>`; it starts no command of the runner's (`::error::`)."""
    return _plain(line).replace(":", "&#58;") + "\n"


def table_head(*columns: str) -> str:
    """Return the head of a table; a column whose name starts with a blank holds figures."""
    rule = "|".join("--:" if column.startswith(" ") else "---" for column in columns)
    return f"| {' | '.join(column.strip() for column in columns)} |\n|{rule}|\n"


def row(cells: Sequence[str]) -> str:
    """Return a line of a table; its cells are Markdown."""
    return f"| {' | '.join(cells)} |\n"


def size(count: int) -> str:
    """Return a number of bytes as people say it."""
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(UNITS) - 1:  # noqa: PLR2004 - of SI
        amount, unit = amount / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{amount:.1f} {UNITS[unit]}"
