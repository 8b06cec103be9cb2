"""The module `cython` as Python itself imports it: nothing of it is compiled."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS

compiled = False


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"cython.{name}")
