"""`torch._C`, of which builds read one value."""

from __future__ import annotations

from typing import Any

from ci_tools.evidence.observe.inside.facts import FACTS

_GLIBCXX_USE_CXX11_ABI = True


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"torch._C.{name}")
