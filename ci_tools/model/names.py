"""A closed set of names that print as themselves."""

from __future__ import annotations

from enum import Enum

__all__ = ["Name"]


class Name(str, Enum):
    """A closed set of names that print as themselves (`enum.StrEnum` of Python 3.11)."""

    def __str__(self) -> str:
        """Return the name as users write it."""
        return str(self.value)
