"""Merges the rows of a project's own catalog over Fatwheel's tables.

A row names a release, and may be of one that our table has, or of a new one. Of a release that our table has, a row may
say more: other keys, or lists with more in them; it may not say anything else than ours, except that upstream has made
a newer patch release of a torch.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ci_tools.catalog.accelerators import KINDS
from ci_tools.model.request import CatalogRow
from ci_tools.model.versions import Minor, Python, read_version

if TYPE_CHECKING:
    Tables = Mapping[str, Any]

Keys = tuple[str, ...]

PUBLISHED: Keys = ("patch", "pythons", "headers")  # of a torch: all of these, or no other key than its version
NIGHTLY: Keys = ("indexes", "pythons")  # of a torch nightly
MAX_SHOWN = 60  # characters of a value that a message shows


class Contradiction(NamedTuple):
    """A row that cannot be merged: its number, the keys in it, and why."""

    number: int
    keys: Keys
    what: str


def merge(tables: Tables, rows: Iterable[CatalogRow]) -> tuple[dict[str, Any], tuple[Contradiction, ...]]:
    """Return the tables with all rows merged over them, and what could not be merged; `tables` stays as it is."""
    merged: dict[str, Any] = {name: copy.copy(table) for name, table in tables.items()}
    wrong: list[Contradiction] = []
    for number, row in enumerate(rows):
        if row.table == "python":
            merged["python"]["releases"] = sorted({*merged["python"]["releases"], row.name}, key=Python.parse)
        else:
            found = _merge_release(merged[row.table], row)
            wrong += (Contradiction(number, keys, f"{row.title}: {what}") for keys, what in found)
    return merged, tuple(wrong)


def _merge_release(table: dict[str, Any], row: CatalogRow) -> Iterator[tuple[Keys, str]]:
    """Merge one release into a table; yield what contradicts it, or is missing."""
    said: dict[str, Any] = json.loads(row.content)
    known = next((one for one in table["release"] if one["version"] == row.name), None)
    ours = copy.deepcopy(known) if known else {"version": row.name}  # the others are those of the tables given
    if known is None:
        table["release"] = sorted([*table["release"], ours], key=lambda one: Minor.parse_torch(one["version"]))
    else:
        table["release"] = [ours if one is known else one for one in table["release"]]
    if known and row.table == "torch" and _is_newer(said.get("patch", ""), ours.get("patch", "")):
        for key in ("headers", "names"):  # those of a patch release are its own
            ours.pop(key, None)
        ours["patch"] = said["patch"]
    yield from _extend(ours, said, ())
    for key in _list_required(row, ours):
        if key not in ours:
            yield (), f'the key "{key}" is missing, and no other row says it'


def _list_required(row: CatalogRow, ours: Mapping[str, Any]) -> Keys:
    """Return the keys that a release must have by now."""
    if row.table != "torch":
        return KINDS[row.table].row_required
    if Minor.parse_torch(row.name).nightly:
        return NIGHTLY
    return PUBLISHED if ours.keys() > {"version"} else ()


def _is_newer(patch: str, than: str) -> bool:
    newer, older = read_version(patch), read_version(than)
    return newer is not None and (older is None or newer > older)


def _extend(ours: dict[str, Any], said: Mapping[str, Any], above: Keys) -> Iterator[tuple[Keys, str]]:
    """Add to a mapping what another says more; yield where they contradict each other."""
    for key, value in said.items():
        keys = (*above, key)
        known = ours.get(key)
        if known is None:
            ours[key] = value
        elif isinstance(known, dict) and isinstance(value, dict):
            yield from _extend(known, value, keys)
        elif isinstance(known, list) and isinstance(value, list) and {*known} <= {*value}:
            ours[key] = [*known, *(one for one in value if one not in known)]
        elif known != value:
            yield keys, _differ(".".join(keys), known, value)


def _differ(key: str, known: object, value: object) -> str:
    if isinstance(known, list) and isinstance(value, list):
        lost = ", ".join(f'"{one}"' for one in known if one not in value)
        return f'the catalog has {lost} in "{key}" as well: expected all of its values, and what is new'
    return f'"{key}" is {_show(known)} in the catalog, not {_show(value)}: expected the same, or no such key'


def _show(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
