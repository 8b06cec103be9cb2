"""`torch.version`: what it was built for."""

from __future__ import annotations

from typing import Any

from ci_tools.evidence.observe.inside.facts import FACTS

debug = False


def __getattr__(name: str) -> Any:
    if name == "__version__":
        FACTS.ask("accelerator")
        return FACTS.ask("torch")
    if name == "git_version":  # that it is there tells PyPI's torch from a company's own; what it is, nobody can know
        return ("f" if FACTS.ask("chance") else "0") * 40
    kinds = {"cuda": "cuda", "hip": "rocm", "rocm": "rocm", "xpu": "xpu"}
    if name in kinds:
        accelerator = FACTS.ask("accelerator")
        return accelerator["version"] if accelerator["kind"] == kinds[name] else None
    return FACTS.unknown(f"torch.version.{name}")
