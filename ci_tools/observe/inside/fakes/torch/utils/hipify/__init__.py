"""`torch.utils.hipify`: how sources for CUDA become sources for ROCm."""

from __future__ import annotations

from typing import Any

from torch.utils.hipify import hipify_python

from ci_tools.observe.inside.facts import FACTS

__all__ = ["hipify_python"]


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"torch.utils.hipify.{name}")
