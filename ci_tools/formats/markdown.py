"""Escapes arbitrary text for GitHub's Markdown: it is shown literally, without secrets, and has no effect."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from ci_tools.addresses import redact

# Characters with a meaning in the middle of a line, in Markdown or on GitHub. Each is written as a numeric reference: a
# backslash does not escape in a table, in an address, or in a line of HTML.
SPECIAL = re.compile(r"[\\`*_{}\[\]()#!|~@:/^$=]|(?<=www)\.", re.IGNORECASE)
NAMING = frozenset("@#")  # GitHub links mentions even with references, unless an invisible space (U+200B) follows
# A user, or a team of an organization. Only these are written unescaped, so that GitHub notifies them.
OWNER = re.compile(r"@[A-Za-z0-9](?:-?[A-Za-z0-9]){0,38}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,99})?")
UNITS = ("B", "kB", "MB", "GB")


def text(value: object) -> str:
    """Return a text escaped for a Markdown table: no markup, no HTML, no mention of anybody."""
    return SPECIAL.sub(lambda found: _escape_character(found) + "&#8203;" * (found[0] in NAMING), _plain(value))


def code(value: object) -> str:
    """Return a text as code in a table; GitHub finds no mentions in code, so it can be copied unchanged."""
    return f"<code>{SPECIAL.sub(_escape_character, _plain(value))}</code>"


def _escape_character(found: re.Match[str]) -> str:
    return f"&#{ord(found[0])};"


def _plain(value: object) -> str:
    return html.escape(one_line(redact(str(value))), quote=False)


def one_line(value: object) -> str:
    """Return a text as one line, with blanks for unprintable characters."""
    return "".join(char if char.isprintable() else " " for char in str(value))


def output(line: str) -> str:
    """Return a line of output for a `<pre>` block; it cannot start a workflow command (`::error::`)."""
    return _plain(line).replace(":", "&#58;") + "\n"


def table_head(*columns: str) -> str:
    """Return the head of a table; a column whose name starts with a blank is right-aligned, for numbers."""
    rule = "|".join("--:" if column.startswith(" ") else "---" for column in columns)
    return f"| {' | '.join(column.strip() for column in columns)} |\n|{rule}|\n"


def row(cells: Sequence[str]) -> str:
    """Return one row of a table; its cells are Markdown already."""
    return f"| {' | '.join(cells)} |\n"


def size(count: int) -> str:
    """Return a number of bytes with a readable SI unit, such as 1.5 MB."""
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(UNITS) - 1:  # noqa: PLR2004 - SI prefixes
        amount, unit = amount / 1000, unit + 1
    return f"{count} B" if unit == 0 else f"{amount:.1f} {UNITS[unit]}"
