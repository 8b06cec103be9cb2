"""`torch.utils`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from ci_tools.observe.inside.facts import FACTS

cmake_prefix_path = str(Path(__file__).parents[1] / "share" / "cmake")


def __getattr__(name: str) -> Any:
    if name in {"cpp_extension", "hipify"}:
        return importlib.import_module(f"torch.utils.{name}")
    return FACTS.unknown(f"torch.utils.{name}")
