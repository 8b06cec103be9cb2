"""`torch.backends.cudnn`: it comes with torch for CUDA, and as MIOpen with that for ROCm."""

from __future__ import annotations

from ci_tools.observe.inside.facts import FACTS

enabled = True


def is_available() -> bool:
    """Whether torch was built with it."""
    return bool(FACTS.ask("accelerator")["kind"] in {"cuda", "rocm"})
