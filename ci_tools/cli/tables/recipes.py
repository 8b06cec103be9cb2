"""Tables about recipes: their releases, the plans of these, upstream's news, and what is due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ci_tools.cli.tables.layout import Table, add_row, new_table
from ci_tools.errors import count
from ci_tools.formats import markdown
from ci_tools.model.names import safe_name
from ci_tools.plan.matrix import MAX_ROWS
from ci_tools.plan.plan_file import runs_on
from ci_tools.recipes.due import DueVerdict, State

if TYPE_CHECKING:
    from ci_tools.recipes.check import Check
    from ci_tools.recipes.releases import RecipeRelease
    from ci_tools.recipes.upstream import UpstreamNews

PART = 8  # releases that one runner signs or publishes: it has room for a few gigabytes
ORDER = (State.DUE, State.UNKNOWN, State.CANNOT, State.DONE)  # what somebody has to do comes first


def releases_table(releases: Sequence[RecipeRelease]) -> Iterator[Table]:
    """Yield the releases of recipes: their versions, tags and titles, or why one cannot be."""
    table = new_table(count(len(releases), "release"), "recipe", "version", "Python", "tag", "title", "cannot be built")
    for one in releases:
        pythons = ", ".join(map(str, one.request.pythons))
        add_row(table, one.recipe, one.version, pythons, one.tag, one.title, "; ".join(one.cannot))
    yield table


def release_values(releases: Sequence[RecipeRelease]) -> list[dict[str, Any]]:
    """Return the releases of recipes as JSON values."""
    return [
        {
            "recipe": one.recipe,
            "version": one.version,
            "python": list(map(str, one.request.pythons)),
            "tag": one.tag,
            "title": one.title,
            "cannot": list(one.cannot),
        }
        for one in releases
    ]


def checks_table(checks: Sequence[Check]) -> Iterator[Table]:
    """Yield the result for each release: the wheels of its plan, or why it has none."""
    table = new_table(f"{count(len(checks), 'release')} checked", "recipe", "tag", "source", "result")
    for one in checks:
        result = [*one.wheels, *(f"none: {reason}" for reason in one.skipped)]
        result += ["it cannot be planned: see below"] if one.error else []
        add_row(table, one.recipe, one.tag, one.source[:12], "\n".join(result))
    yield table


def check_values(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Return the result for each release as JSON values."""
    return [{**one._asdict(), "error": str(one.error) if one.error else None} for one in checks]


def news_table(news: Sequence[UpstreamNews]) -> Iterator[Table]:
    """Yield what upstream has and the recipes do not name."""
    title = f"{count(len(news), 'piece')} of news"
    yield new_table(title, "recipe", "what", "the recipe names", "found", "where", rows=news)


def verdicts_table(verdicts: Sequence[DueVerdict]) -> Iterator[Table]:
    """Yield which releases are due, which are not, and why."""
    rows = ((one.wanted.tag, one.state.value, one.reason) for one in _sorted(verdicts))
    yield new_table(_title(verdicts), "release", "", "why", rows=rows)


def verdicts_page(verdicts: Sequence[DueVerdict]) -> str:
    """Return a page for GitHub that says which releases are due, which are not, and why."""
    rows = [
        markdown.row([markdown.code(one.wanted.tag), markdown.text(one.state.value), markdown.text(one.reason)])
        for one in _sorted(verdicts)
    ]
    left = sum(one.state is State.DUE for one in verdicts) - MAX_ROWS
    more = f"A run builds the {MAX_ROWS} oldest of them, and the next one the other {left:,}.\n\n" if left > 0 else ""
    return f"## {_title(verdicts)}\n\n{more}{markdown.table_head('release', 'state', 'why')}{''.join(rows)}"


def verdict_values(verdicts: Sequence[DueVerdict]) -> list[dict[str, Any]]:
    """Return the verdicts as JSON values."""
    return [
        {"tag": one.wanted.tag, "state": one.state.value, "reason": one.reason, **_row(one)}
        for one in _sorted(verdicts)
    ]


def due_rows(verdicts: Sequence[DueVerdict]) -> list[dict[str, Any]]:
    """Return a workflow's row for each release that is due, oldest first.

    There are as many as one matrix takes; what is left is due the next time.
    """
    return [_row(one) for one in _sorted(verdicts) if one.state is State.DUE][:MAX_ROWS]


def parts(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts in which releases are signed and published, each with the pattern of its artifacts' names."""
    names = [[row["artifact"] for row in rows[first : first + PART]] for first in range(0, len(rows), PART)]
    patterns = (f"{{{','.join(part)}}}" if part[1:] else part[0] for part in names)  # {one} stands for itself
    return [{"number": number, "pattern": f"recipe-{pattern}"} for number, pattern in enumerate(patterns, 1)]


def _row(verdict: DueVerdict) -> dict[str, Any]:
    wanted = verdict.wanted
    names = ("recipe", "version", "python", "torch", "cuda", "archs")
    said = {name: getattr(wanted, name) for name in names}
    place = {"runner": runs_on(wanted.runner) if wanted.runner else "", "container": wanted.container}
    named = {"tag": wanted.tag, "artifact": safe_name(wanted.tag)}
    return {**named, **said, "rebuild": str(verdict.rebuild or ""), **place, "minutes": wanted.minutes or None}


def _title(verdicts: Sequence[DueVerdict]) -> str:
    numbers = {state: sum(one.state is state for one in verdicts) for state in State}
    due = f"{numbers[State.DUE]} of {count(len(verdicts), 'release')} due"
    return f"{due}, {numbers[State.UNKNOWN]} not known" if numbers[State.UNKNOWN] else due


def _sorted(verdicts: Sequence[DueVerdict]) -> list[DueVerdict]:
    """Return the verdicts by their state; of what is due, first what was never published, then the oldest."""
    return sorted(verdicts, key=lambda one: (ORDER.index(one.state), -one.age, one.wanted.tag))
