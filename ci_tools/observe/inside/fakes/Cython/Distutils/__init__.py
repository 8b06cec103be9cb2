"""`Cython.Distutils`: the command that has Cython write C files, under its older name."""

from __future__ import annotations

from typing import Any

from Cython.Distutils.build_ext import build_ext
from Cython.Distutils.extension import Extension

from ci_tools.observe.inside.facts import FACTS

__all__ = ["Extension", "build_ext"]


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.Distutils.{name}")
