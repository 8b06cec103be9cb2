"""The conditions in the table of the standard library, read in another way than the observer reads them."""

from __future__ import annotations


def holds(condition: str, os: str, python: str) -> bool:
    """Whether the table says that a cell has a name: `linux macos <3.14; windows`. An empty condition always holds."""
    version = int(python.removesuffix("t").partition(".")[2])
    for part in condition.split("; "):
        words = part.split()
        bounds = [word for word in words if not word.isalpha()]
        if os in words or len(bounds) == len(words):
            return all(eval(f"{version}{word.replace('3.', '')}") for word in bounds)  # noqa: S307 - `12>=11`
    return False
