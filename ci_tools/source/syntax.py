"""Parses Python files that somebody else wrote."""

from __future__ import annotations

import ast
import warnings

DEEPEST = 150  # levels of a syntax tree: `ast.unparse` calls itself several times for each


def parse_module(text: str | bytes) -> ast.Module | None:
    """Parse a file, and print none of its warnings; None if that fails, or if it is nested too deep."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of an invalid escape
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    level: list[ast.AST] = [module]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return None if level else module
