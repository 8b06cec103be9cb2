"""Writes a plan, or the files of a release, as a page of GitHub-flavoured Markdown for a maintainer in a hurry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.pages.layout import MAX_STEP, assemble, fold
from ci_tools.cli.pages.plan import (
    describe_change,
    heading,
    list_skips,
    list_warnings,
    list_wheels,
    note_idle,
    note_left,
)
from ci_tools.cli.pages.release import (
    describe_state,
    list_failures,
    list_files,
    list_findings,
    list_missing_trials,
    list_trials,
    list_withheld,
)
from ci_tools.errors import count
from ci_tools.model.plan import Plan

if TYPE_CHECKING:
    from ci_tools.plan.compare.comparison import Comparison
    from ci_tools.publish.folder import Finished

MAX_COMMENT = 65_000  # bytes; GitHub accepts 65,536 characters


def plan_page(plan: Plan, comparison: Comparison | None = None, *, most: int = MAX_STEP) -> str:
    """Return the page of a plan, of at most `most` bytes; a comparison, if given, comes first."""
    if comparison is None:  # nothing to compare: all of it
        return assemble(
            [
                heading(plan),
                *note_idle(plan),
                *note_left(plan),
                *list_wheels(plan),
                *list_skips(plan),
                *list_warnings(plan),
            ],
            most,
        )
    rest = (*fold("The plan, and its reasons", list_wheels(plan)), *list_skips(plan))  # the change comes first
    return assemble([heading(plan), *note_left(plan), *describe_change(comparison), *rest], most)


def release_page(finished: Finished, comparison: Comparison | None = None, *, most: int = MAX_STEP) -> str:
    """Return the page of a release folder, of at most `most` bytes; failures and their owners come first."""
    plan = finished.plan
    sections = [
        heading(plan),
        *describe_state(finished),
        *note_left(plan),
        *(describe_change(comparison) if comparison else ()),
        *list_files(finished),
        *list_trials(finished),
        *list_missing_trials(finished),
        *list_withheld(finished),
        *list_findings(finished),
        *list_failures(finished),
        *fold("The plan, and its reasons", list_wheels(plan)),
        *list_skips(plan),
        *list_warnings(plan),
    ]
    return assemble(sections, most)


def unattested_page(files: Sequence[Path]) -> str:
    """Return the note on the page of a release whose files are not attested."""
    what = "nothing that GitHub signed says which run made them"
    return f"⚠️ **Not attested:** {count(len(files), 'file')}, each as its receipt says; {what}.\n\n"
