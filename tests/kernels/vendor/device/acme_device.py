"""The Python side of the device, as torch finds it: by an entry point of the group `torch.backends`."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

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


def get_rng_state(_: object = None) -> torch.Tensor:
    """An empty state: the device draws no random numbers of its own."""
    import torch  # noqa: PLC0415 - see above

    return torch.empty(0, dtype=torch.uint8)


def set_rng_state(state: torch.Tensor, _: object = None) -> None:
    """Take back what `get_rng_state` gave."""


def manual_seed_all(seed: int) -> None:
    """Seed nothing."""


def _is_in_bad_fork() -> bool:
    return False


def fallbacks() -> int:
    """How many operators the CPU has run in the device's place."""
    count = ctypes.CDLL(str(LIBRARY)).fallbacks_so_far
    count.restype = ctypes.c_int64
    return int(count())
