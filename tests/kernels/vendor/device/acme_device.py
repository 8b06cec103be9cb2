"""The Python side of the device, as torch finds it: by an entry point of the group `torch.backends`."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

LIBRARY = Path(__file__).with_name("libacme_device.so")


def load() -> None:
    import torch  # noqa: PLC0415 - which calls this while it is imported, and may be imported by this module first

    torch.ops.load_library(LIBRARY)
    torch.utils.rename_privateuse1_backend("acme")
    torch._register_device_module("acme", sys.modules[__name__])  # noqa: SLF001 - what devices call


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def fallbacks() -> int:
    """How many operators the CPU has run in the device's place."""
    count = ctypes.CDLL(str(LIBRARY)).fallbacks_so_far
    count.restype = ctypes.c_int64
    return int(count())
