"""The module `cython` as Python itself imports it: nothing of it is compiled."""

from __future__ import annotations

import runpy
from typing import Any

from ci_tools.observe.inside.facts import FACTS

compiled = False
if __name__ == "__main__":
    runpy.run_module("Cython", run_name="__main__")


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"cython.{name}")
