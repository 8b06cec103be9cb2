"""Writes the table of what differs in the standard library: `python -m tests.maintain.library_table`.

For maintainers. typeshed, the stubs of the standard library, has most names under conditions on `sys.platform` and
`sys.version_info`. The table has the names that not every system and Python has, with a condition, such as
`linux macos <3.14`: the systems, then the Pythons. Parts for different systems are separated by semicolons. The name ""
is the module itself, and `Path.walk` a member of a class. Source: typeshed_client.readthedocs.io, docs.python.org.
"""

from __future__ import annotations

import ast
import itertools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import typeshed_client as typeshed
from typeshed_client import SearchContext
from typeshed_client.finder import get_search_context

from ci_tools.catalog import STANDARD_LIBRARY

SYSTEMS = {"linux": "linux", "macos": "darwin", "windows": "win32"}
PYTHONS = tuple((3, minor) for minor in range(10, 16))
CELLS = frozenset(itertools.product(SYSTEMS, PYTHONS))
CONDITIONS = ("sys.platform", "sys.version_info")
# ruff: noqa: SIM905 - as words they fit on a page
# Python's own tests, games and tools, what setuptools replaces, and stubs of no module.
LEFT_OUT = frozenset(
    "_tkinter _typeshed antigravity distutils idlelib lib2to3 pdb test this tkinter turtle turtledemo "
    "typing_extensions xxlimited xxlimited_35".split()
)

# Names that a patch release or an option of Python's build decides, or that the stubs have for other Pythons.
NOT_SO = frozenset(
    "_collections_abc.dict_items.isdisjoint _collections_abc.dict_keys.isdisjoint _dbm _gdbm "
    "bdb.Breakpoint.clearBreakpoints bdb.Bdb.set_enterframe collections.UserDict.get dis.Instruction.is_jump_target "
    "email._header_value_parser.MessageIDList email._header_value_parser.parse_message_ids "
    "email.headerregistry.ReferencesHeader enum.pickle_by_enum_name enum.pickle_by_global_name "
    "gzip.GzipFile.readinto gzip.GzipFile.readinto1 "
    "importlib.machinery.AppleFrameworkLoader importlib.resources.Anchor "
    "importlib.resources.simple.ResourceContainer.joinpath io.text_encoding ntpath.isdevdrive os.PIDFD_NONBLOCK "
    "posix.PIDFD_NONBLOCK pydoc.HTMLDoc.parentlink pydoc_data.module_docs sqlite3.version sys._monitoring "
    "sre_parse.MAXWIDTH sys.last_exc termios.TIOCTTYGSTRUCT tokenize.Untokenizer.add_backslash_continuation "
    "tokenize.Untokenizer.escape_brackets wave.WAVE_FORMAT_EXTENSIBLE zipfile._path.glob.match_dirs "
    "zipfile._path.glob.translate_core".split()
)
NOT_IN_TYPESHED = {"curses": {"": "linux macos"}}

Cell = tuple[str, tuple[int, int]]


def read_table() -> dict[str, dict[str, str]]:
    """Return the condition of each name that not every system and Python has, by module."""
    contexts = {cell: get_search_context(version=cell[1], platform=SYSTEMS[cell[0]], search_path=[]) for cell in CELLS}
    stubs = dict(itertools.chain.from_iterable(map(typeshed.get_all_stub_files, contexts.values())))
    versions = _read_versions(next(iter(stubs.values())))
    table = {}
    for module, stub in sorted(stubs.items()):
        top, *inner = module.split(".")
        if top in LEFT_OUT or module in NOT_SO or any(part.startswith("__") for part in inner):
            continue
        allowed = {cell for cell in CELLS if versions.holds(module, cell[1])}
        rows = _read_module(module, stub.read_text(encoding="utf-8"), allowed, contexts)
        table[module] = {name: condition for name, condition in rows if f"{module}.{name}" not in NOT_SO}
    return {module: rows for module, rows in (table | NOT_IN_TYPESHED).items() if rows}


def _read_module(
    module: str, text: str, allowed: set[Cell], contexts: Mapping[Cell, SearchContext]
) -> Iterator[tuple[str, str]]:
    """Yield the names of a module that differ, each with its condition."""
    if not any(word in text for word in CONDITIONS):
        if allowed != CELLS:
            yield "", _say(allowed)
        return
    cells = _read_names(module, allowed, contexts)
    systems = {system for found in cells.values() for system, _ in found}  # others have no such module
    of_module = {(system, python) for system, python in allowed if system in systems}
    if of_module != CELLS:
        yield "", _say(of_module)
    for name, found in sorted(cells.items()):
        owner = cells[name.rpartition(".")[0]] if "." in name else of_module
        if found not in (owner, CELLS) and not any(part.startswith("__") for part in name.split(".")):
            yield name, _say(found)


def _read_names(module: str, allowed: set[Cell], contexts: Mapping[Cell, SearchContext]) -> dict[str, set[Cell]]:
    """Return the cells that have each exported name of a module, and each public method of its own classes."""
    cells: dict[str, set[Cell]] = defaultdict(set)
    own: set[str] = set()
    elsewhere = set()  # classes that a later Python imports from another module
    for cell in sorted(allowed):
        names = typeshed.get_stub_names(module, search_context=contexts[cell]) or {}
        for name, info in names.items():
            if not info.is_exported:
                continue
            cells[name].add(cell)
            methods = _list_methods(name, names)
            if methods is None:
                elsewhere.add(name)
            own |= {f"{name}.{method}" for method in info.child_nodes or ()}
            for method in methods or ():
                cells[f"{name}.{method}"].add(cell)
    kept = {name for name in own if name.partition(".")[0] not in elsewhere}
    return {name: found for name, found in cells.items() if "." not in name or name in kept}


def _list_methods(name: str, names: Mapping[str, typeshed.NameInfo]) -> set[str] | None:
    """Return the methods of a class and of its bases in this module, between which they move; None for other names."""
    info = names.get(name)
    if info is None or not isinstance(info.ast, ast.ClassDef):
        return None
    found = {method for method, child in (info.child_nodes or {}).items() if _is_method(child)}
    for base in info.ast.bases:
        word = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(word, ast.Name) and word.id != name:
            found |= _list_methods(word.id, names) or set()
    return {method for method in found if not method.startswith(("_", "visit_"))}


def _is_method(info: typeshed.NameInfo) -> bool:
    return isinstance(info.ast, (ast.FunctionDef, typeshed.OverloadedName))


class _Versions:
    """typeshed's file VERSIONS: the first and last Python with a module; one of a package counts for what is in it."""

    def __init__(self, text: str) -> None:
        self.ranges: dict[str, tuple[tuple[int, int], tuple[int, int]]] = {}
        for line in text.splitlines():
            name, _, versions = line.partition("#")[0].partition(":")
            first, _, last = versions.strip().partition("-")
            if name:
                self.ranges[name.strip()] = (_version(first), _version(last) if last else PYTHONS[-1])

    def holds(self, module: str, python: tuple[int, int]) -> bool:
        """Whether a Python has the module."""
        parts = module.split(".")
        names = (".".join(parts[:count]) for count in range(1, len(parts) + 1))
        return all(
            first <= python <= last for name in names if name in self.ranges for first, last in [self.ranges[name]]
        )


def _read_versions(stub: Path) -> _Versions:
    file = next(folder / "VERSIONS" for folder in stub.parents if (folder / "VERSIONS").is_file())
    return _Versions(file.read_text(encoding="utf-8"))


def _version(text: str) -> tuple[int, int]:
    major, minor = map(int, text.strip().split("."))
    return major, minor


def _say(cells: set[Cell]) -> str:
    """Return the condition that holds only in these cells."""
    systems: dict[str, list[str]] = defaultdict(list)
    for system in SYSTEMS:
        pythons = [python for python in PYTHONS if (system, python) in cells]
        if pythons:
            systems[_say_pythons(pythons)].append(system)
    parts = [(names if len(names) < len(SYSTEMS) else [], pythons) for pythons, names in systems.items()]
    return "; ".join(" ".join(filter(None, (*names, pythons))) for names, pythons in parts)


def _say_pythons(pythons: list[tuple[int, int]]) -> str:
    """Return `>=3.11 <3.14` for the Pythons 3.11 to 3.13; an end that is the table's own is left out."""
    first, last = pythons[0], pythons[-1]
    missing = [python for python in PYTHONS if first < python < last and python not in pythons]
    words = [f">=3.{first[1]}" if first != PYTHONS[0] else "", f"<3.{last[1] + 1}" if last != PYTHONS[-1] else ""]
    return " ".join(filter(None, (*words, *(f"!=3.{python[1]}" for python in missing))))


def main() -> None:
    """Write the table; one line for each name, sorted."""
    text = json.dumps(read_table(), indent=1, sort_keys=True)
    STANDARD_LIBRARY.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
