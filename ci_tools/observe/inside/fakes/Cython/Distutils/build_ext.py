"""`Cython.Distutils.build_ext`: the command under its older names."""

from typing import Any

from Cython.Build import build_ext

from ci_tools.observe.inside.facts import FACTS

new_build_ext = old_build_ext = build_ext


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.Distutils.build_ext.{name}")
