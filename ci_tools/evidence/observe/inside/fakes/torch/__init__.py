"""A torch that knows what a builder's torch would know, and computes nothing."""

from __future__ import annotations

from typing import Any

from torch import _C, __config__, backends, cuda, ops, utils, version, xpu

from ci_tools.evidence.observe.inside.facts import FACTS

__all__ = ["_C", "__config__", "backends", "compiled_with_cxx11_abi", "cuda", "ops", "utils", "version", "xpu"]


class TorchVersion(str):
    """`torch.__version__`: text that compares as a version."""

    __slots__ = ()

    def _compared(self, other: object) -> tuple[Any, Any]:
        from packaging.version import Version

        other = ".".join(map(str, other)) if isinstance(other, tuple) else str(other)
        return Version(self), Version(other)

    def __lt__(self, other: object) -> bool:
        """Compare as versions."""
        mine, theirs = self._compared(other)
        return bool(mine < theirs)

    def __le__(self, other: object) -> bool:
        """Compare as versions."""
        mine, theirs = self._compared(other)
        return bool(mine <= theirs)

    def __gt__(self, other: object) -> bool:
        """Compare as versions."""
        return not self <= other

    def __ge__(self, other: object) -> bool:
        """Compare as versions."""
        return not self < other

    def __eq__(self, other: object) -> bool:
        """Compare as versions."""
        mine, theirs = self._compared(other)
        return bool(mine == theirs)

    def __ne__(self, other: object) -> bool:
        """Compare as versions."""
        return not self == other

    __hash__ = str.__hash__


def compiled_with_cxx11_abi() -> bool:
    """Return what every release of torch since 2.6 answers."""
    return True


def __getattr__(name: str) -> Any:
    if name == "__version__":
        FACTS.ask("accelerator")
        return TorchVersion(FACTS.ask("torch"))
    return FACTS.unknown(f"torch.{name}")
