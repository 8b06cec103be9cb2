"""`Cython.Compiler.Options`: what a build sets here changes no file that is compiled, and its values are not known."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS


def get_directive_defaults() -> dict[str, Any]:
    """Return a table that a build may change."""
    return {}


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.Compiler.Options.{name}")
