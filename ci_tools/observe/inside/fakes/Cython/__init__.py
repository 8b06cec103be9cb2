"""A Cython that says which C files it would write."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS

__version__ = "3.2.0"


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.{name}")
