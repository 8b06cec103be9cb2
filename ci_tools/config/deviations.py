"""Reads where a config departs from its source, each with a reason: patches, drops and unsupported cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ci_tools.machine.storage import sha256_of
from ci_tools.model.request import Drop, Patch, Unsupported
from ci_tools.model.versions import Minor, Python

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from ci_tools.formats.yaml_file import Document, Keys

    Table = Mapping[str, Any]


def read_patches(document: Document, config: str, folder: Path) -> tuple[Patch, ...]:
    """Return the patches of a document whose config has this name; their files are below `folder`."""
    items = _items(document, config, "source", "patches")
    return tuple(Patch(table["file"], table["reason"], where, _hash(folder / table["file"])) for table, where in items)


def _hash(patch: Path) -> str:
    return sha256_of(patch) if patch.is_file() else ""  # who applies it says that it is missing


def read_unsupported(document: Document, config: str) -> tuple[Unsupported, ...]:
    """Return what a document says that its package cannot do."""
    return tuple(
        Unsupported(
            table["reason"],
            where,
            tuple(map(Python.parse, table.get("python", ()))),
            _minors(table.get("torch", ())),
            _minors(table.get("cuda", ())),
        )
        for table, where in _items(document, config, "unsupported")
    )


def read_drops(build: Table) -> tuple[Drop, ...]:
    """Return the requirements that the table `build` drops."""
    return tuple(
        Drop(table["name"], table["reason"], tuple(map(Python.parse, table.get("python", ()))))
        for table in build.get("drop", ())
    )


def _items(document: Document, config: str, *keys: str) -> Iterator[tuple[Table, str]]:
    """Yield the tables of a list, each with the config's name and its line."""
    found: Any = document.value
    for key in keys:
        found = (found or {}).get(key)
    for index, table in enumerate(found or ()):
        place: Keys = (*keys, index)
        yield table, f"{config}:{document.values[place].line}"


def _minors(texts: Iterable[str]) -> tuple[Minor, ...]:
    return tuple(map(Minor.parse, texts))
