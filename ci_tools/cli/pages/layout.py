"""Sections of a page of GitHub-flavoured Markdown, and the page that they make.

All untrusted text on the page is escaped by `markdown`, and is shown literally.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ci_tools.formats import markdown
from ci_tools.formats.markdown import row, table_head, text

MAX_STEP = 1_000_000  # bytes; GitHub accepts 1 MiB per step summary, and drops a larger one entirely
MAX_CELL = 600  # characters; longer texts are cut
MAX_NAMES = 3  # wheels that a line names one by one
CUT = "\n*The page is cut here, for GitHub takes no more: `plan.json` and the receipts have all of it.*\n"
MORE = "\n*And {count:,} more.*\n"


class PageSection(NamedTuple):
    """A part of a page: its head, its lines, of which the last ones may be cut, and its tail."""

    head: str
    rows: tuple[str, ...] = ()
    tail: str = ""


def assemble(sections: Iterable[PageSection], most: int) -> str:
    """Join the sections that fit into `most` bytes, and add a note if any had to be cut."""
    page, room, is_cut = "", most - len(CUT.encode()), False  # in bytes, as GitHub counts
    for section in sections:
        fitting = _fitting(section, room - len(page.encode()))  # a later, shorter section may still fit
        is_cut = is_cut or fitting is None or len(fitting) < len("".join(_whole(section)))
        page += fitting or ""
    return page + (CUT if is_cut else "")


def _whole(section: PageSection) -> tuple[str, ...]:
    return (section.head, *section.rows, section.tail)


def _fitting(section: PageSection, room: int) -> str | None:
    """Return a section with as many of its lines as fit into `room` bytes; None if none fits."""
    whole = "".join(_whole(section))
    if len(whole.encode()) <= room:
        return whole
    more = MORE.format(count=len(section.rows))  # as long as it can get: fewer are left out
    left = room - sum(len(part.encode()) for part in (section.head, section.tail, more))  # in bytes, as GitHub counts
    shown = 0
    for line in section.rows:
        left -= len(line.encode())
        if left < 0:
            break
        shown += 1
    if not shown:
        return None
    more = MORE.format(count=len(section.rows) - shown)
    return "".join((section.head, *section.rows[:shown], more, section.tail))


def fold(title: str, sections: Iterable[PageSection], *, is_open: bool = False) -> Iterator[PageSection]:
    """Yield sections folded behind a clickable title, which is Markdown."""
    start = f"<details{' open' if is_open else ''}><summary>{title}</summary>\n\n"
    for head, rows, tail in sections:
        yield PageSection(start + head, rows, f"{tail}</details>\n\n")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[PageSection]:
    """Yield a table with a title if it has any rows; its cells are Markdown."""
    lines = tuple(map(row, rows))
    if lines:
        yield PageSection(f"{title}\n\n{table_head(*columns)}" if title else table_head(*columns), lines, "\n")


def show_output(lines: Iterable[str]) -> PageSection:
    """Return the output of a program as preformatted lines."""
    return PageSection("<pre>\n", tuple(map(markdown.output, lines)), "</pre>\n")


def cut(value: object, most: int = MAX_CELL) -> str:
    """Return a text escaped as Markdown, with its end cut if it is longer than `most` characters."""
    whole = str(value)
    return text(whole if len(whole) <= most else f"{whole[: most - 1]}…")


def join_lines(parts: Iterable[str]) -> str:
    """Return the parts of a table cell, each on a line of its own."""
    return "<br>".join(parts)
