"""JSON that we keep for ourselves, with a digest of what it says: a byte that a disk has changed is seen, not believed.

It is no signature. Who can write to a cache can write a seal as well.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["SEAL", "digest", "sealed", "unsealed"]

SEAL = "seal"


def sealed(table: dict[str, Any]) -> bytes:
    """Return an object as JSON with its seal."""
    return json.dumps({**table, SEAL: digest(_spelled(table))}, indent=1).encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the object that `sealed` made JSON of; raise ValueError where a byte of it is another."""
    try:
        table = json.loads(data)
    except RecursionError:
        table = None
    if not isinstance(table, dict) or table.pop(SEAL, None) != digest(_spelled(table)):
        msg = "it is not what was written"
        raise ValueError(msg)
    return table


def digest(data: bytes) -> str:
    """Return the sha256 of what is sealed, in hex."""
    return hashlib.sha256(data).hexdigest()


def _spelled(table: dict[str, Any]) -> bytes:
    return json.dumps(table, indent=1).encode()
