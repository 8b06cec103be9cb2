"""`Cython.Compiler.Version`."""

from typing import Any

from Cython import __version__

from ci_tools.observe.inside.facts import FACTS

version = __version__


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"Cython.Compiler.Version.{name}")
