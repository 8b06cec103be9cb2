"""Reads the modules of ci_tools, each once in a run: for tests of what they import, call and say."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2] / "ci_tools"


@functools.cache
def list_modules() -> Mapping[str, Path]:
    """Return every module's file by its dotted name below ci_tools; a package has its own name."""
    files = {path: path.relative_to(ROOT).with_suffix("").parts for path in sorted(ROOT.rglob("*.py"))}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in files.items() if parts != ("__init__",)}


@functools.cache
def read_module(name: str) -> str:
    """Return a module's text."""
    return list_modules()[name].read_text(encoding="utf-8")


def find_modules(words: Iterable[str], among: Iterable[str] | None = None) -> list[str]:
    """Return the modules that have one of these words in their text: no others have it in their syntax tree."""
    wanted = tuple(words)
    names = list_modules() if among is None else among
    return [name for name in names if any(word in read_module(name) for word in wanted)]


@functools.cache
def parse_nodes(name: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a module's syntax tree, the module first."""
    return tuple(ast.walk(ast.parse(read_module(name))))


def imports_of(name: str) -> Iterator[str]:
    """Yield what a module imports when it runs, not for its types: `json`, and `ci_tools.errors.InputError`."""
    todo: list[ast.AST] = [ast.parse(read_module(name))]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        todo += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
