"""A pybind11 that knows where its headers would be."""

from __future__ import annotations

from pathlib import Path

__version__ = "3.0.0"


def get_include(user: object = None) -> str:
    """Return the include folder."""
    return str(Path(__file__).parent / "include")


def get_cmake_dir() -> str:
    """Return the folder of its CMake files."""
    return str(Path(__file__).parent / "share" / "cmake")
