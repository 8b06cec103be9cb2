"""`Cython.Build.Dependencies`, where `cythonize` is defined."""

from typing import Any

from Cython.Build import cythonize

from ci_tools.observe.inside.facts import FACTS

__all__ = ["cythonize"]


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.Build.Dependencies.{name}")
