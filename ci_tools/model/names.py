"""The base class of closed sets of names."""

from __future__ import annotations

from enum import Enum

__all__ = ["Name"]


class Name(str, Enum):
    """A closed set of names whose `str` is the name itself, as for `enum.StrEnum` of Python 3.11."""

    def __str__(self) -> str:
        """Return the name in the user's notation."""
        return str(self.value)
