"""Reads the data files of this folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent


def read_bytes(name: str) -> bytes:
    """Return the content of the table of that name."""
    return (HERE / f"{name}.toml").read_bytes()


def parse(content: bytes) -> dict[str, Any]:
    """Return the values of a table."""
    return tomllib.loads(content.decode())


def read(name: str) -> dict[str, Any]:
    """Return the values of the table of that name."""
    return parse(read_bytes(name))
