"""`Cython.Build.Cythonize`: the program `cythonize`."""

from __future__ import annotations

import sys
from typing import Any

from Cython.Build import cythonize, translate

from ci_tools.observe.inside.facts import FACTS

__all__ = ["cythonize", "main"]


def main(args: Any = None) -> None:
    """Write the C files that a command line names."""
    translate(sys.argv[1:] if args is None else args)


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.Build.Cythonize.{name}")
