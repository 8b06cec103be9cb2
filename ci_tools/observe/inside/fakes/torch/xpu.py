"""`torch.xpu` on a builder."""

from __future__ import annotations

from ci_tools.observe.inside.facts import FACTS


def is_available() -> bool:
    """Whether the builder has a GPU of this kind."""
    return bool(FACTS.ask("gpu") and FACTS.ask("accelerator")["kind"] == "xpu")


def _is_compiled() -> bool:
    return bool(FACTS.ask("accelerator")["kind"] == "xpu")
