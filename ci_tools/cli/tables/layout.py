"""Tables for people: how they are made, and how `show` prints them."""

from __future__ import annotations

import re
import sys
import textwrap
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import rich.table

__all__ = [
    "Table",
    "add_row",
    "count",
    "draw",
    "draw_apart",
    "make_rich_table",
    "near",
    "new_table",
    "plain",
    "readable_size",
    "show",
    "show_line",
]

UTF = "utf-8"
GAP = "   "  # between two columns
WIDEST = 10_000  # columns of a table that is not wrapped
WORD = re.compile(r"^\s*\S+|\S+")  # rich keeps the blanks before a line's first word


def plain(text: str) -> str:
    """Return a text with every control and direction character escaped, so that it cannot affect a terminal."""
    return "".join(char if _is_plain(char) else char.encode("unicode_escape").decode() for char in text)


def _is_plain(char: str) -> bool:
    return char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"


@dataclass(slots=True)
class Table:
    """A table with a title: columns by name, and rows of texts, which may have several lines."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    show_header: bool = True


def show(tables: Iterable[Table], *, on_stderr: bool = False) -> None:
    """Print tables on stdout, or on stderr if they are not the result of the command.

    Rows are wrapped only on a terminal that is too narrow for them, and only between words: a broken name cannot be
    copied. Where even the longest words have no room side by side, each value of a row is below the one before.
    Elsewhere rows stay whole, as logs are searched by line.
    """
    stream = sys.stderr if on_stderr else sys.stdout
    if stream.isatty() or not (stream.encoding or UTF).lower().startswith(UTF[:3]):
        _show_by_rich(tables, on_stderr=on_stderr)
        return
    for table in tables:  # without rich, whose import and drawing take longer than a small plan
        print(table.title, *draw(table), sep="\n", end="\n\n", file=stream)


def show_line(text: str) -> None:
    """Print one line on stdout."""
    print(plain(text))


def draw(table: Table) -> list[str]:
    """Return the lines of a table that is not wrapped, as rich draws it."""
    if not table.rows:
        return [""]
    cells = [[text.split("\n") for text in row] for row in table.rows]
    head = [[[name] for name in table.columns]] if table.show_header else []
    widths = [max(_width(line) for row in (*head, *cells) for line in row[index]) for index in range(len(cells[0]))]
    lines = [line for row in (*head, *cells) for line in _draw_row(row, widths)]
    if head:
        lines.insert(1, f" {'─' * (sum(widths) + len(GAP) * (len(widths) - 1))}")
    return ["", *lines]


def _draw_row(row: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for number in range(max(map(len, row))):
        parts = (lines[number] if number < len(lines) else "" for lines in row)
        padded = (f"{part}{' ' * (width - _width(part))}" for part, width in zip(parts, widths, strict=True))
        yield f" {GAP.join(padded)}".rstrip()


def _width(text: str) -> int:
    """Return the columns that a text takes: most letters of Chinese take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _show_by_rich(tables: Iterable[Table], *, on_stderr: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    stream = Console(stderr=on_stderr)
    for table in tables:
        stream.print(Text(table.title, style="bold"), soft_wrap=True)
        lines = _draw_for(stream.width if stream.is_terminal else WIDEST, table)
        print(*lines, sep="\n", end="\n\n", file=stream.file)


def _draw_for(available: int, table: Table) -> list[str]:
    """Return the lines of a table in so many columns, of which only names that are longer take more."""
    from rich.console import Console

    if not table.rows:
        return [""]
    if _full_width(_fit_widths(table, available)) > available:
        return ["", *draw_apart(table, available)]
    drawing = Console(width=WIDEST, color_system=None, force_terminal=False)
    with drawing.capture() as drawn:
        drawing.print(make_rich_table(table, available))
    return [line.rstrip() for line in drawn.get().rstrip().split("\n")]


def draw_apart(table: Table, available: int) -> Iterator[str]:
    """Yield the lines of a table whose rows are paragraphs: the first value, and below it the others by their names."""
    for first, *others in table.rows:
        yield from _wrap(first, available, " ", " ")
        for name, text in zip(table.columns[1:], others, strict=True):
            if text.strip():
                yield from _wrap(f"{name}: {text}" if name and table.show_header else text, available, "   ", "     ")


def _wrap(text: str, width: int, first: str, others: str) -> Iterator[str]:
    """Yield a text's lines, each of at most `width` columns unless a word is longer, with what to begin them by."""
    for line in text.split("\n"):
        yield from textwrap.wrap(
            line,
            max(width, len(others) + 1),
            initial_indent=first,
            subsequent_indent=others,
            break_long_words=False,
            break_on_hyphens=False,
        )
        first = others


def make_rich_table(table: Table, available: int = WIDEST) -> rich.table.Table:
    """Return a table for rich, as wide as its longest words need where `available` columns are too few.

    The widths are computed here: rich leaves the last columns out where it has shortened the first ones too little.
    """
    import rich.table
    from rich import box
    from rich.text import Text

    made = rich.table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=table.show_header)
    for name, width in zip(table.columns, _fit_widths(table, available), strict=True):
        made.add_column(name, overflow="fold", width=width)
    for row in table.rows:
        made.add_row(*map(Text, row))
    return made


def _fit_widths(table: Table, available: int) -> list[int]:
    """Return the width of each column: that of its longest line, or less, but never less than its longest word."""
    head = [table.columns] if table.show_header else []
    columns = [
        [line for row in (*head, *table.rows) for line in row[index].split("\n")] for index in range(len(table.columns))
    ]
    natural = [max(map(_width, lines), default=0) for lines in columns]
    widths = [max((_width(word) for line in lines for word in WORD.findall(line)), default=0) for lines in columns]
    left = available - _full_width(widths)
    order = sorted(range(len(columns)), key=lambda index: natural[index] - widths[index])
    for number, index in enumerate(order):  # who lacks least gets it first, so that few columns are wrapped
        more = max(min(natural[index] - widths[index], left // (len(order) - number)), 0)
        widths[index] += more
        left -= more
    return widths


def _full_width(widths: Sequence[int]) -> int:
    return 1 + sum(widths) + len(GAP) * (len(widths) - 1)


def new_table(title: str, *columns: str) -> Table:
    """Return an empty table with a title and columns."""
    return Table(plain(title), columns)


def add_row(table: Table, *values: object) -> None:
    """Add a row of values, shown literally."""
    table.rows.append(tuple(plain(str(value)).expandtabs() for value in values))


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
