"""Reads platforms from their own files: `platforms: {linux-rocm: {include: ci/rocm.yml}}`.

The file holds the platform's table, so that its team can own it; each mistake in it is reported at its place there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import yaml

from ci_tools.errors import InputError, Problem, RejectedInput
from ci_tools.formats import yaml_file
from ci_tools.formats.schema import SchemaFlaw
from ci_tools.formats.yaml_file import Document, Keys, Value, compose

INCLUDE = "include"
LONGEST = 255  # bytes of a path; file systems allow no longer name


def resolve_includes(document: Document, folder: Path) -> tuple[Document, list[SchemaFlaw]]:
    """Return the config with each included file as its platform's table, and the flaws of files left out.

    `folder` is the config's. An included file must lie below it and in the source, also after links are resolved.
    """
    flaws: list[SchemaFlaw] = []
    for keys, table in _including(document.value):
        try:
            document = document.replace_part(keys, _part(document, keys, table, folder))
        except RejectedInput as error:  # noqa: PERF203 - few platforms include a file
            flaws += [SchemaFlaw(keys, problem) for problem in error.problems]
    return document, flaws


def _including(value: Value) -> Iterator[tuple[Keys, dict[str, Value]]]:
    """Yield the platforms whose tables include a file; none if the config has another shape."""
    platforms = value.get("platforms") if isinstance(value, dict) else None
    for name, table in platforms.items() if isinstance(platforms, dict) else ():
        if isinstance(table, dict) and INCLUDE in table:
            yield ("platforms", name), table


def _part(document: Document, keys: Keys, table: dict[str, Value], folder: Path) -> Document:
    """Return the file that a platform includes; raise RejectedInput if it is not valid."""
    path = folder / _path(document, keys, table)
    where = document.where((*keys, INCLUDE))
    refuse_outside(document, (*keys, INCLUDE), path, folder)
    if not path.exists():
        raise RejectedInput([Problem(where, f"there is no {path}, expected a file with the table of {keys[-1]}")])
    if os.path.realpath(path) == os.path.realpath(document.name):  # also by a link
        raise RejectedInput([Problem(where, f"this file includes itself, expected one with the table of {keys[-1]}")])
    part = _read(path, where)
    if isinstance(part.value, dict) and INCLUDE in part.value:
        nested = part.where((INCLUDE,), key=True)
        raise RejectedInput([Problem(nested, f"an included file includes no other, expected the table of {keys[-1]}")])
    return part


def refuse_outside(document: Document, keys: Keys, path: Path, folder: Path) -> None:
    """Raise RejectedInput if a file that the config in `folder` names at `keys` is outside the source, by a link."""
    if not Path(os.path.realpath(path)).is_relative_to(_root(document.value, folder)):
        what = f"{path} leads out of the source, to {os.path.realpath(path)}"
        raise RejectedInput([Problem(document.where(keys), what)])


def _path(document: Document, keys: Keys, table: dict[str, Value]) -> str:
    """Return the path in `include`; raise RejectedInput if it is invalid or other keys are beside it."""
    path = table[INCLUDE]
    what = 'is next to "include", expected it in the included file'
    beside = (name for name in table if name != INCLUDE)
    problems = [Problem(document.where((*keys, name), key=True), f'"{name}" {what}') for name in beside]
    if not isinstance(path, str) or not is_below(path):
        what = f"{json.dumps(path, ensure_ascii=False)} is not allowed, expected a path below this file's folder"
        problems.append(Problem(document.where((*keys, INCLUDE)), f"{what}, with forward slashes"))
    if problems:
        raise RejectedInput(problems)
    return str(path)


def is_below(path: str) -> bool:
    """Whether a path in a config is one below the config's folder, with forward slashes."""
    parts = PurePosixPath(path).parts
    # A backslash is a separator on Windows, and a part of a name elsewhere.
    return bool(parts) and len(path.encode()) <= LONGEST and parts[0] != "/" and not {"..", "\\"} & {*parts, *path}


def _root(value: Value, folder: Path) -> Path:
    """Return the source's root if the config is in it, else the config's folder."""
    source = value.get("source") if isinstance(value, dict) else None
    path = source.get("path") if isinstance(source, dict) else None
    root = (folder / (path if isinstance(path, str) else ".")).resolve()
    here = folder.resolve()  # a config may lie beside the source that it names
    return root if here.is_relative_to(root) else here


def _read(path: Path, where: str) -> Document:
    try:
        return yaml_file.read(path, str(path))
    except RejectedInput:  # a mistake in the file has its own place there
        raise
    except InputError as error:
        raise RejectedInput([Problem(where, error.message)]) from error


def set_platform_key(text: str, platform: str, key: str, value: str) -> str | None:
    """Return the config with a setting of one platform, or None if it cannot be edited."""
    table = _platform(text, platform)
    if table is None or not table.value or any(name.value == INCLUDE for name, _ in table.value):
        return None  # the included file belongs to its team
    for name, old in table.value:
        if name.value == key:
            start, end = old.start_mark.index, old.end_mark.index
            return f"{text[:start]}{value}{text[end:]}" if isinstance(old, yaml.ScalarNode) else None
    if table.flow_style:
        end = table.value[-1][1].end_mark.index  # flow style: {a: 1, b: 2}
        return f"{text[:end]}, {key}: {value}{text[end:]}"
    first = table.value[0][0].start_mark
    start = text.rfind("\n", 0, first.index) + 1  # before the first key, with its indentation
    return f"{text[:start]}{' ' * first.column}{key}: {value}\n{text[start:]}" if first.column else None


def _platform(text: str, platform: str) -> yaml.MappingNode | None:
    try:
        node = compose(text, "the config")
    except InputError:
        return None
    for key in ("platforms", platform):
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((value for name, value in pairs if name.value == key), None)
    return node if isinstance(node, yaml.MappingNode) else None
