"""`torch.backends.openmp`: every torch has it."""

from __future__ import annotations


def is_available() -> bool:
    """Whether torch was built with it."""
    return True
