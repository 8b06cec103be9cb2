"""A Cython that says which C files it would write."""

from __future__ import annotations

import importlib
from typing import Any

from ci_tools.observe.inside.facts import FACTS

__version__ = "3.2.0"


def __getattr__(name: str) -> Any:
    if name in {"Build", "Compiler", "Distutils", "Tempita"}:
        return importlib.import_module(f"Cython.{name}")
    return FACTS.unknown(f"Cython.{name}")
