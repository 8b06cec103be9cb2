"""Writes the table of wheels in a README: each series' newest release, and how each wheel is installed. No I/O."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from ci_tools.errors import InputError
from ci_tools.formats import markdown
from ci_tools.publish.retention.judgement import Asset, Stored
from ci_tools.publish.retention.tags import Naming, ReleaseTag, newest_of_series

BEGIN, END = "<!-- fatwheel wheels: begin -->", "<!-- fatwheel wheels: end -->"
SCHEMES = ("https://", "http://")


class WheelRow(NamedTuple):
    """A wheel of the table."""

    project: str
    version: Version
    label: str  # its local version
    python: str  # the tags of Python and ABI: cp313, py3, cp310-abi3
    platform: str
    page: str  # the address of its release
    url: str  # of its download


def list_rows(releases: Sequence[Stored], namings: Sequence[Naming]) -> list[WheelRow]:
    """Return the wheels of each series' newest stable release, sorted by project, newest version and Python."""
    newest = newest_of_series(releases, namings)
    rows = [row for tag, release in newest.values() for asset in release.assets for row in _rows(tag, release, asset)]
    rows.sort(key=lambda row: (row.python, row.label, row.platform))
    rows.sort(key=lambda row: row.version, reverse=True)
    return sorted(rows, key=lambda row: row.project)


def _rows(tag: ReleaseTag, release: Stored, asset: Asset) -> Iterator[WheelRow]:
    """Yield the row of an asset; nothing for a file that is not a wheel, or is named otherwise than installers read."""
    try:
        _, version, _, tags = parse_wheel_filename(asset.name)
    except ValueError:
        return
    first = min(tags, key=str)
    python = first.abi if first.abi.startswith("cp") else first.interpreter
    python = f"{first.interpreter}-abi3" if first.abi == "abi3" else python
    platforms = " ".join(sorted({one.platform for one in tags}))
    yield WheelRow(tag.project, version, version.local or "", python, platforms, release.page, asset.url)


def table_of(rows: Sequence[WheelRow]) -> str:
    """Return the table in Markdown; text of others has no effect in it."""
    head = markdown.table_head("Package", "Version", "Built for", "Python", "Platform", "Install")
    lines = [
        markdown.row(
            [
                markdown.text(row.project),
                _link(str(row.version.public), row.page),
                markdown.text(row.label),
                markdown.text(row.python),
                markdown.text(row.platform),
                markdown.code(f"pip install {row.url}"),
            ]
        )
        for row in rows
    ]
    return head + "".join(lines) if lines else "No wheel is published yet.\n"


def _link(shown: str, address: str) -> str:
    if not address.startswith(SCHEMES):
        return markdown.text(shown)
    return f'<a href="{html.escape(markdown.one_line(address))}">{markdown.text(shown)}</a>'


def replace_table(text: str, table: str, where: str) -> str:
    """Return a README with another table between its markers; everything else stays, line ends included.

    Raises InputError if `where` does not have each marker once, in this order.
    """
    lines = text.splitlines(keepends=True)
    places = [[number for number, line in enumerate(lines) if line.strip() == mark] for mark in (BEGIN, END)]
    if [len(found) for found in places] != [1, 1] or places[0][0] > places[1][0]:
        found = f"{len(places[0])} and {len(places[1])} such lines" if places[0] or places[1] else "none"
        msg = f"{where} has {found}, expected the lines {BEGIN} and {END}, once and in this order"
        raise InputError(msg, hint="put both where the table is to be; what is between them is replaced")
    begin, end = places[0][0], places[1][0]
    line_end = "\r\n" if lines[begin].endswith("\r\n") else "\n"
    new = [f"{line}{line_end}" for line in ("", *table.splitlines(), "")]
    return "".join([*lines[: begin + 1], *new, *lines[end:]])
