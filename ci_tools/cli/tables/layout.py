"""Tables for people: how they are made, and how `show` prints them."""

from __future__ import annotations

import json
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO
from urllib.parse import unquote, urlsplit

from ci_tools.addresses import redact, redact_values

UTF = "utf-8"
GAP = "   "  # between two columns
WIDEST = 10_000  # columns of a table that is not wrapped
PAGE = 100  # columns of a page, in a log as on a wide terminal
SHORT = 16  # columns of what is never wrapped, such as "3.10 to 3.14t"
RULE = re.compile(r" ?─+")
WORD = re.compile(r"^\s*\S+|\S+")  # with the blanks before a line's first word


def plain(text: str) -> str:
    """Return a text without secrets in its addresses, with every character escaped that could affect a terminal."""
    return "".join(char if _is_plain(char) else char.encode("unicode_escape").decode() for char in redact(text))


def _is_plain(char: str) -> bool:
    # U+00A0 and its like, which isprintable() refuses
    return char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"


@dataclass(slots=True)
class Table:
    """A table with a title: columns by name, and rows of texts, which may have several lines."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    is_prose: bool = False  # in a log too, a row that has no room on a page is a paragraph


def show(tables: Iterable[Table], *, on_stderr: bool = False, is_page: bool = False) -> None:
    """Print tables on stdout, or on stderr if they are not the result of the command.

    On a terminal, rows are wrapped to the width of a page, and only between words: no name is broken. Where even the
    longest words have no room side by side, each value of a row is below the one before. In a log, rows stay whole, as
    logs are searched by line, but for tables that are a page or prose. COLUMNS is another width.
    """
    stream = sys.stderr if on_stderr else sys.stdout
    is_utf = (stream.encoding or UTF).lower().startswith(UTF[:3])  # "utf-8", "UTF8", "utf-8-sig"
    columns = shutil.get_terminal_size((PAGE, 0)).columns  # rows are of no use: nothing is paged
    for table in tables:
        needed = _full_width(_fit_widths(table, 0))  # the least that it can be wrapped to
        on_terminal = min(columns, PAGE) if needed <= PAGE else columns  # wider lines are hard to read
        in_log = columns if table.is_prose else max(columns, needed) if is_page else WIDEST
        drawn = draw(table, on_terminal if stream.isatty() else in_log)
        lines = [line[:columns] if RULE.fullmatch(line) else line for line in drawn]  # a rule may be cut
        _print_title(table.title, stream, on_stderr=on_stderr)
        print(*(line if is_utf else line.replace("─", "-") for line in lines), "", sep="\n", file=stream)


def _print_title(title: str, stream: TextIO, *, on_stderr: bool) -> None:
    if not stream.isatty():  # without rich, whose import takes longer than a small plan
        print(title, file=stream)
        return
    from rich.console import Console
    from rich.text import Text

    Console(stderr=on_stderr).print(Text(title, style="bold"), soft_wrap=True)


def show_line(text: str) -> None:
    """Print one line on stdout."""
    print(plain(text))


def show_json(value: object) -> None:
    """Print a verb's result as JSON on stdout, without secrets in its addresses."""
    print(json.dumps(redact_values(value), indent=1))


def show_as(form: str, tables: Iterable[Table], values: object) -> None:
    """Print a verb's result in the form that is asked for: as JSON, or as tables."""
    if form == "json":
        show_json(values)
    else:
        show(tables)


def draw(table: Table, available: int = WIDEST) -> list[str]:
    """Return the lines of a table in so many columns, of which only names that are longer take more."""
    if not table.rows:
        return []
    widths = _fit_widths(table, available)
    if _full_width(widths) > available:
        return ["", *draw_apart(table, available)]
    head = [table.columns] if any(table.columns) else []
    rows = [
        [[*_wrap(text, width, "", "")] or [""] for text, width in zip(row, widths, strict=True)]
        for row in (*head, *table.rows)
    ]
    lines = [line for row in rows for line in _draw_row(row, widths)]
    if head:
        lines.insert(max(map(len, rows[0])), f" {'─' * (sum(widths) + len(GAP) * (len(widths) - 1))}")
    return ["", *lines]


def align(rows: Iterable[Sequence[str]]) -> list[str]:
    """Return rows of texts as lines, with each column as wide as its widest text."""
    told = [[[text] for text in row] for row in rows]  # lines of one text each
    widths = [max(_width(row[index][0]) for row in told) for index in range(len(told[0]))]
    return [line for row in told for line in _draw_row(row, widths)]


def _draw_row(row: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    for number in range(max(map(len, row))):
        parts = (lines[number] if number < len(lines) else "" for lines in row)
        padded = (f"{part}{' ' * (width - _width(part))}" for part, width in zip(parts, widths, strict=True))
        yield f" {GAP.join(padded)}".rstrip()


def _width(text: str) -> int:
    """Return the columns that a text takes: most letters of Chinese take two."""
    if text.isascii():  # rich takes longer to load than most tables to draw
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def draw_apart(table: Table, available: int) -> Iterator[str]:
    """Yield the lines of a table whose rows are paragraphs: the first value, and below it the others by their names."""
    for first, *others in table.rows:
        lines = [*_wrap(first, available, " ", " ")]
        for name, text in zip(table.columns[1:], others, strict=True):
            if text.strip():  # an empty value says nothing
                lines += _wrap(f"{name}: {text}" if name else text, available, "   ", "     ")
        yield from (line for line in lines if line.strip())


def _wrap(text: str, width: int, first: str, others: str) -> Iterator[str]:
    """Yield a text's lines, each of at most `width` columns unless a word is longer, with what to begin them by."""
    for paragraph in text.split("\n"):
        yield from _wrap_line(paragraph, width, first, others)
        first = others


def _wrap_line(text: str, width: int, first: str, others: str) -> Iterator[str]:
    if _width(first) + _width(text) <= width:  # with the blanks between its words
        yield first + text
        return
    line = ""
    for word in WORD.findall(text):
        if line and _width(first) + _width(line) + 1 + _width(word) > width:
            yield first + line
            line, first = "", others
        line += f" {word}" if line else word
    yield first + line


def _fit_widths(table: Table, available: int) -> list[int]:
    """Return the width of each column: that of its longest line, or less, but never less than its longest word.

    Short texts are not wrapped.
    """
    columns = [
        [line for row in (table.columns, *table.rows) for line in row[index].split("\n")]
        for index in range(len(table.columns))
    ]
    natural = [max(map(_width, lines), default=0) for lines in columns]
    words = [max((_width(word) for line in lines for word in WORD.findall(line)), default=0) for lines in columns]
    widths = [max(word, min(line, SHORT)) for word, line in zip(words, natural, strict=True)]
    left = available - _full_width(widths)
    order = sorted(range(len(columns)), key=lambda index: natural[index] - widths[index])
    for number, index in enumerate(order):  # who lacks least gets it first, so that few columns are wrapped
        more = max(min(natural[index] - widths[index], left // (len(order) - number)), 0)
        widths[index] += more
        left -= more
    return widths


def fits_page(table: Table) -> bool:
    """Whether a table has room on a page, or on a wider terminal, without a wrapped row."""
    return _full_width(_fit_widths(table, WIDEST)) <= max(PAGE, shutil.get_terminal_size((PAGE, 0)).columns)


def _full_width(widths: Sequence[int]) -> int:
    return 1 + sum(widths) + len(GAP) * (len(widths) - 1)


def new_table(title: str, *columns: str, rows: Iterable[Iterable[object]] = ()) -> Table:
    """Return a table with a title, columns, and rows of values, which are shown literally."""
    table = Table(plain(title), columns)
    for row in rows:
        add_row(table, *row)
    return table


def filled(*tables: Table) -> Iterator[Table]:
    """Yield the tables that have a row."""
    yield from (table for table in tables if table.rows)


def add_row(table: Table, *values: object) -> None:
    """Add a row of values, shown literally."""
    table.rows.append(tuple(plain(str(value)).expandtabs() for value in values))  # its width differs by place


def near(address: str) -> str:
    """Return an address; for a `file:` address, the path, relative to the working folder if it is in there."""
    if not address.startswith("file:"):
        return address
    path, here = Path(unquote(urlsplit(address).path)), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)  # a path outside would begin with ../..


def readable_size(count: int) -> str:
    """Return a number of bytes with a readable SI unit."""
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:  # noqa: PLR2004 - SI units
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
