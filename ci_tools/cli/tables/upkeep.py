"""Tables about what Fatwheel looks after: an index, and a repository on GitHub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import Table, add_row, count, filled, new_table, readable_size
from ci_tools.index.directory import Root

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ci_tools.doctor.check import Checked
    from ci_tools.index.foreign.adoption import Outline
    from ci_tools.index.maintain import IndexFlaw

MAX_PROJECTS = 30  # projects of an index that get a row each


def adoption_tables(outline: Outline, *, done: bool) -> Iterator[Table]:
    """Yield the changes of an index's adoption: by project, or as a sum if there are many, and the parts left as is."""
    title = "adopted" if done else "to adopt"
    columns = ("hashed", "METADATA written") if done else ("to hash", "METADATA to write")
    table = new_table(title, "project", "files", "new", *columns, "other links")
    shown = outline.projects if len(outline.projects) <= MAX_PROJECTS else ()
    for name, files, new, unhashed, size, metadata, links in shown:
        add_row(table, name, files, new, f"{unhashed} ({readable_size(size)})" if size else unhashed, metadata, links)
    if not shown or len(shown) > 1:
        numbers = ((row.files, row.new, row.unhashed, row.metadata, row.links) for row in outline.projects)
        sums = (f"{sum(column):,}" for column in zip(*numbers, strict=True))
        add_row(table, count(len(outline.projects), "project"), *sums)
    yield table
    fronts = {Root.OWN: "ours from then on", Root.SHARED: "shared: our line is added to them", Root.KEPT: "left alone"}
    kept = ", kept in .fatwheel/replaced" if outline.pages else ""
    pages = (
        ("pages of others that ours replace", f"{outline.pages:,}{kept}"),
        ("pages that list projects", fronts[outline.root]),
    )
    yield new_table("", "", "", rows=pages)
    yield from filled(new_table("left as it is", "where", "why", rows=outline.left))


def flaws_table(flaws: Sequence[IndexFlaw]) -> Iterator[Table]:
    """Yield the flaws of an index, and the repair of each."""
    rows = ((flaw.key, flaw.what, flaw.done) for flaw in flaws)
    yield new_table(count(len(flaws), "flaw"), "where", "what", "", rows=rows)


def doctor_tables(checked: Checked) -> Iterator[Table]:
    """Yield the findings in a repository on GitHub, then for each the reason why it matters and the fix."""
    yield from filled(new_table("fixed over the API", "what", "outcome", rows=checked.fixed))
    title = count(len(checked.findings), "finding") if checked.findings else "nothing is wrong"
    table = new_table(f"{checked.repository}: {title}", "", "weight", "where", "what")
    ways = new_table("why, and what to do", "", "")
    for number, finding in enumerate(checked.findings, 1):
        add_row(table, number, finding.weight, finding.where, finding.what)
        add_row(ways, number, finding.why)
        add_row(ways, "", f"→ {finding.how}{' (--fix does it)' if finding.fix else ''}")
    yield table
    yield from filled(ways)
