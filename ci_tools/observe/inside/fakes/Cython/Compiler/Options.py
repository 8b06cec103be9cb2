"""`Cython.Compiler.Options`: what a build sets here changes no file that is compiled, and its values are not known."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.Compiler.Options.{name}")
