"""`torch.torch_version`: the version of torch, which `torch.__version__` is as well, and its type."""

from __future__ import annotations

from typing import Any

from ci_tools.observe.inside.facts import FACTS


def __getattr__(name: str) -> Any:
    if name in {"__version__", "internal_version"}:
        FACTS.ask("accelerator")
        return TorchVersion(FACTS.ask("torch"))
    return FACTS.unknown(f"torch.torch_version.{name}")


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
