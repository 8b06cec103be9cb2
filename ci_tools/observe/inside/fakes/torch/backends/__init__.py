"""`torch.backends`: what torch's wheels were built with."""

from __future__ import annotations

from typing import Any

from torch.backends import cuda, cudnn, mps, openmp

from ci_tools.observe.inside.facts import FACTS

__all__ = ["cuda", "cudnn", "mps", "openmp"]


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"torch.backends.{name}")
