"""`Cython.Distutils.old_build_ext`: the command as it was before it could cythonize."""

from typing import Any

from Cython.Distutils.build_ext import old_build_ext

from ci_tools.observe.inside.facts import FACTS

__all__ = ["old_build_ext"]


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.Distutils.old_build_ext.{name}")
