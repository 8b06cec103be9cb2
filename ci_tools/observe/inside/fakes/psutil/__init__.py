"""A psutil on the machine of the run: builds ask it how many compilers to run at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ci_tools.observe.inside.chance import machine
from ci_tools.observe.inside.facts import FACTS


def cpu_count(logical: bool = True) -> int:
    """Return how many processors there are."""
    return machine().processors


def virtual_memory() -> SimpleNamespace:
    """Return how much memory there is, in bytes."""
    size = machine().memory
    return SimpleNamespace(total=size, available=size, free=size)


class Process:
    """The process that builds."""

    def memory_info(self) -> SimpleNamespace:
        """Return how much memory it has, in bytes: more in the second run of a build that asks."""
        rss = (256 if FACTS.ask("chance") else 128) << 20
        return SimpleNamespace(rss=rss, vms=rss)

    def __getattr__(self, name: str) -> Any:
        return FACTS.unknown(f"psutil.Process.{name}")
