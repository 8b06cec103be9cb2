"""A torch that knows what a builder's torch would know, and computes nothing."""

from __future__ import annotations

from typing import Any

from torch import _C, __config__, backends, cuda, ops, utils, version, xpu
from torch.torch_version import TorchVersion

from ci_tools.observe.inside.facts import FACTS

__all__ = ["_C", "__config__", "backends", "compiled_with_cxx11_abi", "cuda", "ops", "utils", "version", "xpu"]


def compiled_with_cxx11_abi() -> bool:
    """Return how this torch was built: every release since 2.7 has the new ABI of std::string."""
    return bool(_C.__getattr__("_GLIBCXX_USE_CXX11_ABI"))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        FACTS.ask("accelerator")
        return TorchVersion(FACTS.ask("torch"))
    if name in {"has_cuda", "has_mps"}:  # names of an old torch that each later one keeps
        return getattr(backends, name.removeprefix("has_")).is_built()
    return FACTS.unknown(f"torch.{name}")
