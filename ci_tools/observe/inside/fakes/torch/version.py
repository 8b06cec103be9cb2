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
    if name in FACTS.known["torch_versions"]:
        FACTS.ask("accelerator")
        value = FACTS.known["torch_versions"][name]
        if value is not None:
            FACTS.ask("oneapi")  # by which cells of one accelerator differ
        if value == "":  # it is there, and the request does not name it
            FACTS.doubt(f"asks for torch.version.{name}, whose value the request does not name")
        return "1.0" if value == "" else value
    return FACTS.unknown(f"torch.version.{name}")
