"""`Cython.Compiler`, of which builds set options."""

from __future__ import annotations

from typing import Any

from Cython.Compiler import Options

from ci_tools.observe.inside.facts import FACTS

__all__ = ["Options"]


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.Compiler.{name}")
