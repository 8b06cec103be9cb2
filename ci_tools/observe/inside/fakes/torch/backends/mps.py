"""`torch.backends.mps`: Apple's GPUs."""

from __future__ import annotations

from ci_tools.observe.inside.facts import FACTS


def is_built() -> bool:
    """Whether torch was built for them."""
    return bool(FACTS.ask("os") == "macos")


def is_available() -> bool:
    """Whether the builder has one."""
    return is_built()
