"""`torch.backends.openmp`: every torch has it."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS


def is_available() -> bool:
    """Whether torch was built with it."""
    return True


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"torch.backends.openmp.{name}")
