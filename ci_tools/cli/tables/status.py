"""The table of how the builds of a repository went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ci_tools.cli.tables.layout import Table, add_row, new_table
from ci_tools.errors import count
from ci_tools.recipes.health import Line, summarize


def status_table(lines: Sequence[Line]) -> Iterator[Table]:
    """Yield a row for each recipe's series, platform and workflow: its owner, and how its runs went."""
    summary = summarize(lines)
    columns = ("", "newest run", "succeeded", "last success", "newest release", "owner")
    table = new_table(f"{summary.good} of {count(summary.known, 'line')} good", "what", *columns)
    for line in lines:
        last = f"{line.last_success:%Y-%m-%d}" if line.last_success else "never"
        share = f"{line.succeeded} of {line.tried}"
        add_row(table, line.name, line.part, line.outcome, share, last, line.published, line.owner)
    yield table


def status_values(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return the lines as JSON values."""
    return [
        {
            "name": line.name,
            "part": line.part,
            "owner": line.owner or None,
            "outcome": str(line.outcome),
            "succeeded": line.succeeded,
            "tried": line.tried,
            "last_success": line.last_success.isoformat() if line.last_success else None,
            "published": line.published or None,
            "runs": [
                {"outcome": str(one.outcome), "when": one.when.isoformat(), "page": one.page} for one in line.results
            ],
        }
        for line in lines
    ]
