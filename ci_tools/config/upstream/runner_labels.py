"""The labels of GitHub's own runners, as its repository of images lists them, and what of them a catalog lacks."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog import tables
from ci_tools.formats.toml import document as toml_document
from ci_tools.machine.http.client import open_session, read_document
from ci_tools.machine.http.faults import explain_unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator

LABEL = re.compile(r"`((?:macos|ubuntu|windows|xcode)-[\w.-]+)`")
TABLE = re.compile(r"^\[runners\][ \t]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)
SOURCE: str = tables.read("runners")["source"]


class RunnerNews(NamedTuple):
    """Labels that GitHub lists now and a catalog lacks, and those that it lists no more, with the day of the look."""

    new: tuple[str, ...]
    gone: dict[str, str]

    def describe(self) -> Iterator[str]:
        """Yield a line for each label."""
        yield from (f"runner {label}" for label in self.new)
        yield from (f"runner {label}, which GitHub lists no more" for label in self.gone)

    def write(self, text: str, name: str) -> str:
        """Return the text of a catalog's file with these labels in its table [runners]."""
        known = _own(text, name)
        gone = {**known.get("gone", {}), **self.gone}
        labels = sorted({*known.get("labels", ()), *self.new} - set(gone))
        lines = ["[runners]", f"labels = [{', '.join(map(_quote, labels))}]"] + ["[runners.gone]"] * bool(gone)
        lines += [f"{_quote(label)} = {_quote(day)}" for label, day in gone.items()]
        rest = re.sub(r"^\[runners\.gone\][ \t]*\n(?:(?!\[)[^\n]*\n?)*", "", TABLE.sub("", text), flags=re.MULTILINE)
        return f"{rest.rstrip()}\n\n".lstrip() + "\n".join(lines) + "\n"


def _own(text: str, name: str) -> dict[str, Any]:
    table: Any = toml_document.find_table(text, name, ("runners",))
    return table if isinstance(table, dict) else {}


def _quote(text: str) -> str:
    return f'"{text}"'


def find_new_labels(url: str, text: str, name: str) -> RunnerNews:
    """Return how a list of runners differs from the catalog with its file `text`; raise MachineError without a list."""
    with explain_unanswered(f"the list of runners {url}"), open_session() as session:
        page = (read_document(session, url) or b"").decode("utf-8", "replace")
    listed = {label for line in page.splitlines() if line.startswith("|") for label in LABEL.findall(line)}
    own, base = _own(text, name), tables.read("runners")
    leaving = {label for row in base["leaving"] for label in row["labels"]} | set(own.get("gone", {}))
    current = ({*base["labels"], *own.get("labels", ())}) - set(own.get("gone", {}))
    today = dt.datetime.now(dt.timezone.utc).date().isoformat()
    gone = sorted(current - listed - leaving) if listed else []  # a page of another form says nothing of them
    return RunnerNews(tuple(sorted(listed - current - leaving)), dict.fromkeys(gone, today))
