"""`torch.version`: what it was built for."""

from __future__ import annotations

from typing import Any

from ci_tools.observer.facts import FACTS

debug = False


def __getattr__(name: str) -> Any:
    if name == "__version__":
        FACTS.ask("accelerator")
        return FACTS.ask("torch")
    kinds = {"cuda": "cuda", "hip": "rocm", "rocm": "rocm", "xpu": "xpu"}
    if name in kinds:
        accelerator = FACTS.ask("accelerator")
        return accelerator["version"] if accelerator["kind"] == kinds[name] else None
    return FACTS.unknown(f"torch.version.{name}")
