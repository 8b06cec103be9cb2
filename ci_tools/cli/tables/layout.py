"""Tables for people: how they are made, and how `show` prints them."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable


__all__ = ["add_row", "count", "near", "new_table", "plain", "readable_size", "show"]

WIDEST = 10_000  # columns of a table that is not wrapped
WIDE_ENOUGH = 110  # columns; up to this width a table holds names, not sentences, and only the terminal wraps it


def plain(text: str) -> str:
    """Return a text with every control and direction character escaped, so that it cannot affect a terminal."""
    return "".join(char if _is_plain(char) else char.encode("unicode_escape").decode() for char in text)


def _is_plain(char: str) -> bool:
    return char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"


def show(tables: Iterable[Table], *, on_stderr: bool = False) -> None:
    """Print tables on stdout, or on stderr if they are not the result of the command.

    Rows are wrapped only on a terminal, and only if the table is wider than both the terminal and `WIDE_ENOUGH`: such
    a table holds sentences. Otherwise rows stay whole: a broken name cannot be copied, and logs are searched by line.
    """
    stream = Console(stderr=on_stderr)
    for table in tables:
        title, table.title = table.title, None
        natural = Console(width=WIDEST).measure(table).maximum
        fits = natural <= max(stream.width, WIDE_ENOUGH) or not stream.is_terminal
        drawing = Console(width=natural if fits else stream.width, color_system=None, force_terminal=False)
        with drawing.capture() as drawn:
            drawing.print(table if table.row_count else "")
        lines = (line.rstrip() for line in drawn.get().rstrip().split("\n"))
        stream.print(Text(str(title), style="bold"), soft_wrap=True)
        print(*lines, sep="\n", end="\n\n", file=stream.file)


def new_table(title: str, *columns: str) -> Table:
    """Return an empty table with a title and columns."""
    table = Table(title=plain(title), box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def add_row(table: Table, *values: object) -> None:
    """Add a row of values, shown literally."""
    table.add_row(*(Text(plain(str(value))) for value in values))


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def near(address: str) -> str:
    """Return an address; for a `file:` address, the path, relative to the working folder if it is in there."""
    if not address.startswith("file:"):
        return address
    path, here = Path(unquote(urlsplit(address).path)), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def readable_size(count: int) -> str:
    """Return a number of bytes with a readable SI unit."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004 - SI units
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
