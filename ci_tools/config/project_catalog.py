"""Reads the rows that a project adds to the catalog: in its config, in a file that it names, or in one beside it.

    catalog: ci/torch.toml          # or the tables themselves

The tables are those of our data files, each under its file's name: `[[torch.release]]`, `[[cuda.release]]`,
`[[rocm.release]]`, `[[xpu.release]]`, and `[python] releases`; and `[[torch.nightly]]`, which counts only where the
config asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.catalog import Catalog
from ci_tools.config import include
from ci_tools.config.torch_axis import choose_nightly
from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.formats import toml_file
from ci_tools.formats.schema import SchemaFlaw
from ci_tools.formats.yaml_file import Document, Keys, YamlPlace
from ci_tools.model.request import CatalogRow
from ci_tools.model.versions import Minor

KEY = "catalog"
DEFAULT_FILE = "fatwheel.catalog.toml"  # beside the config, if that has no such key
LISTS = (("cuda", "release"), ("rocm", "release"), ("xpu", "release"), ("torch", "release"), ("torch", "nightly"))
TableOf = dict[str, Any]


class ProjectRows(NamedTuple):
    """The rows of a project, and the keys of each in the config's document."""

    rows: tuple[CatalogRow, ...]
    keys: tuple[Keys, ...]

    def find_problems(self, document: Document, catalog: Catalog) -> Iterator[Problem]:
        """Yield where a row contradicts the catalog, at its place in the document."""
        for wrong in catalog.find_contradictions(self.rows):
            yield Problem(document.where((*self.keys[wrong.number], *wrong.keys)), wrong.what)


def file_of(document: Document, folder: Path) -> Path | None:
    """Return the file of a config's catalog: the one it names, or the default; None if the config has the tables."""
    named = document.value.get(KEY) if isinstance(document.value, dict) else None
    if named is None or isinstance(named, str):
        return folder / (named or DEFAULT_FILE)
    return None


def resolve_catalog(document: Document, folder: Path, *, recorded: bool = False) -> tuple[Document, list[SchemaFlaw]]:
    """Return the config with the content of its catalog's file at its key, and the flaws of a file left out.

    With `recorded`, a plan has the rows already, and the file need not be there.
    """
    path = file_of(document, folder)
    if path is None or not isinstance(document.value, dict):
        return document, []
    named = document.value.get(KEY)
    if not path.exists() and (named is None or recorded):  # the default file is nobody's mistake
        value = {key: value for key, value in document.value.items() if key != KEY}
        return document._replace(value=value), []
    if isinstance(named, str) and not include.is_below(named):
        return document, []  # the schema says what is wrong with it
    try:
        include.refuse_outside(document, (KEY,), path, folder)
        return document.replace_part((KEY,), read_file(path)), []
    except RejectedInput as error:
        return document, [SchemaFlaw((KEY,), problem) for problem in error.problems]
    except InputError as error:
        where = document.where((KEY,)) if named is not None else f"{path}:1:1"
        return document, [SchemaFlaw((KEY,), Problem(where, error.message))]


def read_file(path: Path) -> Document:
    """Return the tables in a catalog's file; raise InputError if it is not TOML."""
    return toml_file.read(path, str(path), ())


def list_of(row: CatalogRow) -> str:
    """Return the list of its table that a row is in."""
    if row.table == "torch" and Minor.parse_torch(row.name).nightly:
        return "nightly"
    return "releases" if row.table == "python" else "release"


def read_rows(document: Document, name: Callable[[YamlPlace], str], nightly: str | None = None) -> ProjectRows:
    """Return the rows at the key `catalog` of a document whose shape is right; `name` writes a row's place.

    Of the nightlies only the one that is asked for has a row: its date, or `newest`.
    """
    tables: TableOf = document.value.get(KEY) or {}  # type: ignore[union-attr,assignment]  # checked by the schema
    chosen = choose_nightly(nightly, (one["version"] for one in tables.get("torch", {}).get("nightly", ())))
    found = list(_releases(tables, document, name, chosen))
    return ProjectRows(tuple(row for row, _ in found), tuple(keys for _, keys in found))


def _releases(
    tables: TableOf, document: Document, name: Callable[[YamlPlace], str], nightly: str | None
) -> Iterator[tuple[CatalogRow, Keys]]:
    for table, kind in LISTS:
        for number, release in enumerate(tables.get(table, {}).get(kind, ())):
            if kind == "nightly" and release["version"] != nightly:
                continue
            keys: Keys = (KEY, table, kind, number)
            said = {key: value for key, value in release.items() if key != "version"}  # it is the row's name
            content = json.dumps(said, sort_keys=True, ensure_ascii=False)  # equal rows are equal texts
            yield CatalogRow(table, release["version"], content, name(document.values[keys])), keys
    for number, version in enumerate(tables.get("python", {}).get("releases", ())):
        keys = (KEY, "python", "releases", number)
        yield CatalogRow("python", version, "{}", name(document.values[keys])), keys
