"""`torch.torch_version`: the type of `torch.__version__`."""

from __future__ import annotations

from typing import Any


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
