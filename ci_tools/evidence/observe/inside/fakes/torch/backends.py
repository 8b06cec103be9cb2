"""`torch.backends`: what torch's wheels were built with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ci_tools.evidence.observe.inside.facts import FACTS


def _is_cuda() -> bool:
    return bool(FACTS.ask("accelerator")["kind"] in {"cuda", "rocm"})


def _is_mac() -> bool:
    return bool(FACTS.ask("os") == "macos")


cuda = SimpleNamespace(is_built=_is_cuda)
cudnn = SimpleNamespace(is_available=_is_cuda, enabled=True)
mps = SimpleNamespace(is_built=_is_mac, is_available=_is_mac)
openmp = SimpleNamespace(is_available=lambda: True)


def __getattr__(name: str) -> Any:
    return FACTS.unknown(f"torch.backends.{name}")
