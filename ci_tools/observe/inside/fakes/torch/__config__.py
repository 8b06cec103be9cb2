"""`torch.__config__`: how torch's Linux wheels say that they were built."""

from __future__ import annotations


def parallel_info() -> str:
    """Return the lines that extensions look for."""
    return "ATen parallel backend: OpenMP\n"


def show() -> str:
    """Return the same for a person."""
    return "PyTorch built with:\n"
