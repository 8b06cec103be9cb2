"""Seals what is kept between runs, so that what others put there, or changed there, is told from what this user kept.

The key is a file that its user alone can read, in the folder for a user's state and not in the cache: a cache may be
shared, copied or restored. Whoever runs programs as the same user has the key as well.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_key", "seal", "unseal"]

LENGTH = 32  # bytes
OTHERS = 0o077  # what the group and all others may do with a file


def seal(name: str, value: Mapping[str, Any], key: bytes) -> bytes:
    """Return what to keep of a value under a name."""
    text = json.dumps(value)
    return json.dumps({"value": text, "seal": _seal(name, text, key)}).encode()


def unseal(name: str, content: bytes, key: bytes) -> dict[str, Any] | None:
    """Return the value that was sealed with the key under the name; None where `content` is anything else."""
    try:
        entry = json.loads(content)
        text, found = entry["value"], entry["seal"]
        if not hmac.compare_digest(_seal(name, text, key).encode(), found.encode()):
            return None
        value = json.loads(text)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _seal(name: str, text: str, key: bytes) -> str:
    return hmac.new(key, f"{name}\n{text}".encode(), hashlib.sha256).hexdigest()


def read_key(environ: Mapping[str, str]) -> bytes:
    """Return this user's key, made on first use; one that no later run has, where none can be kept."""
    home = environ.get("HOME", "")
    folder = environ.get("XDG_STATE_HOME") or (home and f"{home}/.local/state")
    if not folder or not Path(folder).is_absolute():
        return _passing_key()
    path = Path(folder) / "fatwheel" / "key"
    try:
        return _read(path) or _make(path)
    except OSError:
        return _passing_key()


@functools.cache
def _passing_key() -> bytes:
    return secrets.token_bytes(LENGTH)


def _read(path: Path) -> bytes | None:
    """Return the key in a file; None where there is none, or others may know or have written it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        is_own = stat.S_ISREG(status.st_mode) and (os.name != "posix" or status.st_uid == os.geteuid())
        content = file.read(LENGTH + 1) if is_own and not (os.name == "posix" and status.st_mode & OTHERS) else b""
    return content if len(content) == LENGTH else None


def _make(path: Path) -> bytes:
    """Make a key and return it; where another run makes one at the same time, return the first of the two."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # with the mode 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(LENGTH))
    if path.is_file() and _read(path) is None:
        path.unlink()
    with suppress(FileExistsError):
        os.link(name, path)
    Path(name).unlink()
    return _read(path) or _passing_key()
