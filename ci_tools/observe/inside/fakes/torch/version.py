"""`torch.version`: what it was built for."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS

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
        if accelerator["kind"] != kinds[name]:
            return None
        if name == "xpu" and (oneapi := FACTS.ask("oneapi")):
            year, _, minor = oneapi.partition(".")
            return f"{year}{int(minor):02}00"  # 20260100 in torch 2.14.0+xpu
        if not accelerator["version"]:  # it is there, and the request does not name it
            FACTS.doubt(f"asks for torch.version.{name}, whose value the request does not name")
        return accelerator["version"] or "1.0"
    return FACTS.unknown(f"torch.version.{name}")
