"""A numpy that knows where its headers would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ci_tools.observe.inside.facts import FACTS

__version__ = "2.4.0"


def get_include() -> str:
    """Return the include folder."""
    return str(Path(__file__).parent / "include")


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"numpy.{name}")
