"""What GitHub takes in a workflow file: the keys of each place, and the patterns that choose branches and tags."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ci_tools.catalog import tables
from ci_tools.errors import close_names

TABLES = tables.read("workflow_keys")
FILTERS = {("branches",), ("branches-ignore",), ("tags",), ("tags-ignore",)}
# What regular expressions have, and patterns have not: https://docs.github.com/en/actions/reference/workflows-and-actions/
# workflow-syntax#filter-pattern-cheat-sheet; and what says the same in a pattern.
REGULAR = re.compile(r"^!?\^|\$$|\\[dswDSW]|\(\?|\)[?*+]|\w\|\w|\{\d+(?:,\d*)?\}")
MEANINGS = ((r"^(!?)\^|\$$", r"\1"), (r"\\d", "[0-9]"), (r"\\([.-])", r"\1"), (r"\.[*+]", "*"))


class KeyFlaw(NamedTuple):
    """What GitHub does not take, its place, and what to write instead."""

    rule: str
    place: tuple[Any, ...]
    what: str
    why: str
    how: str


def find_key_flaws(value: Any, place: tuple[Any, ...] = ()) -> Iterator[KeyFlaw]:  # noqa: ANN401 - as YAML has them
    """Yield keys that are misspelt, or stand where they do not belong: GitHub may have others that are not known."""
    names, needed = _of_place("keys", place), _of_place("needed", place)
    table, refused = value if isinstance(value, dict) else {}, "GitHub refuses the file"
    homes = {key: of or "the workflow itself" for of, others in TABLES["keys"].items() for key in others}
    near = {key: close_names(key, names) for key in map(str, table) if names and key not in names}
    for key, close in near.items():
        if close or key in homes:
            how = f'did you mean "{close[0]}"?' if close else f"`{key}:` belongs in {homes[key]}"
            yield KeyFlaw("key", (*place, key), f"there is no key `{key}` here", refused, how)
    if needed and table and not any(near.values()) and not set(needed) & set(table):
        yield KeyFlaw("key", place, f"it has none of {', '.join(needed)}", refused, f"`{needed[0]}:` or `{needed[1]}:`")
    if isinstance(value, str) and place[:1] == ("on",) and place[2:3] in FILTERS and REGULAR.search(value):
        plain = value
        for sign, meaning in MEANINGS:
            plain = re.sub(sign, meaning, plain)
        is_plain = not REGULAR.search(plain) and not set(plain) & set("()|{}")
        why, how = "no name, or another one, starts the workflow", f'"{plain if is_plain else "v*"}"'
        yield KeyFlaw("pattern", place, f"{value} is a regular expression, not a pattern", why, how)
    items: Iterable[tuple[Any, Any]] = table.items() or enumerate(value if isinstance(value, list) else ())
    for key, item in items:
        yield from find_key_flaws(item, (*place, key))


def _of_place(kind: str, place: tuple[Any, ...]) -> list[str]:
    """Return what a table has for a place."""
    path = "/".join(map(str, place))
    return list(next((names for of, names in TABLES[kind].items() if re.fullmatch(of.replace("*", "[^/]+"), path)), ()))
