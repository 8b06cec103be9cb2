"""`pynvml`, which asks the driver of NVIDIA's GPUs: it fails to start where there is none."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS

# ruff: noqa: SIM905 - as words they fit on a page
KNOWN = frozenset(
    "nvmlDeviceGetCount nvmlDeviceGetCudaComputeCapability nvmlDeviceGetHandleByIndex nvmlInit nvmlShutdown".split()
)


class NVMLError(Exception):
    """The driver is not there."""


NVMLError_LibraryNotFound = NVMLError


def _answer(name: str) -> Any:
    if not (FACTS.ask("gpu") and FACTS.ask("accelerator")["kind"] == "cuda"):
        raise NVMLError
    if name == "nvmlDeviceGetCudaComputeCapability":
        return tuple(map(int, str(FACTS.ask("capability")).split(".")))
    return int(name == "nvmlDeviceGetCount")


def __getattr__(name: str) -> Any:
    return (lambda *_: _answer(name)) if name in KNOWN else FACTS.unknown(f"pynvml.{name}")
