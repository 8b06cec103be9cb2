"""JSON for Fatwheel's own files, with a digest of its content, so that a byte damaged on the disk is detected.

The digest is not a signature: anyone who can write to the cache can also write a digest.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from ci_tools.formats.json_file import parse

__all__ = ["SEAL", "digest", "sealed", "unsealed"]

SEAL = "seal"


def sealed(table: dict[str, Any]) -> bytes:
    """Return an object as JSON, with the digest of its content."""
    return json.dumps({**table, SEAL: digest(_spelled(table))}, indent=1).encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the object that `sealed` wrote; raise ValueError if its content has changed."""
    table = parse(data)
    if not isinstance(table, dict) or table.pop(SEAL, None) != digest(_spelled(table)):
        msg = "its content has changed since it was written"
        raise ValueError(msg)
    return table


def digest(data: bytes) -> str:
    """Return the sha256 of the bytes, in hex."""
    return hashlib.sha256(data).hexdigest()


def _spelled(table: dict[str, Any]) -> bytes:
    return json.dumps(table, indent=1).encode()
