"""`torch.backends.cuda`: whether torch was built for CUDA, or for ROCm under that name."""

from __future__ import annotations

from ci_tools.observe.inside.facts import FACTS


def is_built() -> bool:
    """Whether torch was built for it."""
    return bool(FACTS.ask("accelerator")["kind"] in {"cuda", "rocm"})
