"""The labels of GitHub's own runners: those that it has, and the day on which others stop."""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ci_tools.catalog import tables
from ci_tools.errors import close_names, nearest

HOSTED = re.compile(r"(?:macos|ubuntu|windows)-[\w.]+(?:-\w+)*", re.IGNORECASE)
# A system and a version, as GitHub names its own, without a word of an owner's behind it.
OWN_FORM = re.compile(
    r"(?:macos-\d+(?:\.\d+)?|ubuntu-\d\d\.?\d{0,2}|windows-\d{4})(?:-(?:arm|intel|large))?|(?:macos|ubuntu|windows)-lat\w*"
)


class RunnerLabels(NamedTuple):
    """The labels of GitHub's own runners: those that it has, and the rows of those that go or have gone."""

    current: frozenset[str]
    leaving: Mapping[str, Mapping[str, Any]]

    def extend(self, table: Mapping[str, Any]) -> RunnerLabels:
        """Return them with those that a project's catalog adds or ends; raise ValueError for a wrong day."""
        source = tables.read("runners")["source"]
        gone = {
            label: {"day": dt.date.fromisoformat(day), "instead": "a label of that list", "source": source}
            for label, day in table.get("gone", {}).items()
        }
        return RunnerLabels(self.current | {*table.get("labels", ())}, {**gone, **self.leaving})

    def find_gone(self, label: str, today: dt.date) -> Mapping[str, Any] | None:
        """Return the row of a label that GitHub has switched off; None for any other."""
        row = self.leaving.get(label.lower())
        return row if row and today >= row["day"] else None

    def correct(self, label: str) -> str:
        """Return the nearest labels in words if one is misspelt; empty for one of GitHub's or of an owner's own."""
        name = label.lower()
        if name in self.current or name in self.leaving:
            return ""
        is_close = close_names(name, self.current, cutoff=0.84) or OWN_FORM.fullmatch(name)
        return nearest(name, self.current) if is_close else ""


def is_hosted(label: str) -> bool:
    """Whether a label has the form of those of GitHub's own runners."""
    return HOSTED.fullmatch(label) is not None


@functools.cache
def runner_labels() -> RunnerLabels:
    """Return the labels of the catalog."""
    table = tables.read("runners")
    leaving = {label: row for row in table["leaving"] for label in row["labels"]}
    return RunnerLabels(frozenset(table["labels"]), leaving)
