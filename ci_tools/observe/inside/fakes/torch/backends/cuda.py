"""`torch.backends.cuda`: whether torch was built for CUDA, or for ROCm under that name."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS


def is_built() -> bool:
    """Whether torch was built for it."""
    return bool(FACTS.ask("accelerator")["kind"] in {"cuda", "rocm"})


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"torch.backends.cuda.{name}")
