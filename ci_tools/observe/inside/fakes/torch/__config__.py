"""`torch.__config__`: how torch's Linux wheels say that they were built."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS


def parallel_info() -> str:
    """Return the lines that extensions look for."""
    return "ATen parallel backend: OpenMP\n"


def show() -> str:
    """Return the same for a person."""
    return "PyTorch built with:\n"


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"torch.__config__.{name}")
