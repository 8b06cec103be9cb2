"""Reads the modules of ci_tools, each once in a run: for tests of what they import, call and say."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ROOT", "list_modules", "parse_nodes"]

ROOT = Path(__file__).parents[2] / "ci_tools"


@functools.cache
def list_modules() -> Mapping[str, Path]:
    """Return every module's file by its dotted name below ci_tools; a package has its own name."""
    files = {path: path.relative_to(ROOT).with_suffix("").parts for path in sorted(ROOT.rglob("*.py"))}
    return {".".join(parts).removesuffix(".__init__"): path for path, parts in files.items() if parts != ("__init__",)}


@functools.cache
def parse_nodes(name: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a module's syntax tree, the module first."""
    return tuple(ast.walk(ast.parse(list_modules()[name].read_text(encoding="utf-8"))))
