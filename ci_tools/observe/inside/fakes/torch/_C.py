"""`torch._C`, of which builds read how it was compiled, and which reads schemas of operators."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS

PYBIND11 = "_PYBIND11_"


class Schema:
    """The schema of an operator as text."""

    def __init__(self, text: str) -> None:
        self.text = " ".join(text.split())

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def __getattr__(self, name: str) -> Any:
        return FACTS.unknown(f"torch._C.parse_schema().{name}")


def parse_schema(schema: str) -> Schema:
    """Return the schema that a text says."""
    return Schema(schema)


def _parallel_info() -> str:
    """Return what `torch.__config__.parallel_info()` does."""
    from torch.__config__ import parallel_info

    return parallel_info()


def __getattr__(name: str) -> Any:
    if name == "_GLIBCXX_USE_CXX11_ABI":
        return FACTS.known.get("cxx11_abi", True)
    if name.startswith(PYBIND11) and name.removeprefix(PYBIND11) in FACTS.known.get("pybind11", {}):
        return FACTS.known["pybind11"][name.removeprefix(PYBIND11)]
    if name == "_cuda_getArchFlags" and FACTS.ask("accelerator")["kind"] not in {"cuda", "rocm"}:
        raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
    return FACTS.unknown(f"torch._C.{name}")
