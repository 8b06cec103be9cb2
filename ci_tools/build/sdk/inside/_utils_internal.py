"""`torch._utils_internal`: the one function that torch.utils.cpp_extension of some releases uses."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from torch._fatwheel import FACTS


def get_file_path(*parts: str) -> str:
    """Return the path of a file of torch's, whose first part is `torch`."""
    return str(Path(__file__).parents[1].joinpath(*parts))


def __getattr__(name: str) -> NoReturn:
    return FACTS.unknown(f"torch._utils_internal.{name}")
