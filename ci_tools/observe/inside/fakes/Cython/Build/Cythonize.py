"""`Cython.Build.Cythonize`: the program `cythonize`."""

from __future__ import annotations

import sys
from typing import Any

from Cython.Build import cythonize, translate

__all__ = ["cythonize", "main"]


def main(args: Any = None) -> None:
    """Write the C files that a command line names."""
    translate(sys.argv[1:] if args is None else args)
