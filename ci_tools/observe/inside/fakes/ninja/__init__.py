"""A ninja that is there."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS

__version__ = "1.13.0"


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"ninja.{name}")
