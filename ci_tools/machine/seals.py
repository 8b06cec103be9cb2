"""Signs cached values with an HMAC, so that values which others added or changed are recognised and ignored.

The key is a file that only its user can read. It is in the user's state folder, not in the cache, because a cache may
be shared, copied or restored. Any program that runs as the same user can read the key, too.
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
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

LENGTH = 32  # bytes
OTHERS = 0o077  # the mode bits of the group and of all others


def seal(name: str, value: Mapping[str, Any], key: bytes) -> bytes:
    """Return the bytes to store for a value: its JSON and its seal, which is bound to the name."""
    text = json.dumps(value)
    return json.dumps({"value": text, "seal": _seal(name, text, key)}).encode()


def unseal(name: str, content: bytes, key: bytes) -> dict[str, Any] | None:
    """Return the value that was sealed with this key and name; None if `content` is anything else."""
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
    """Return this user's key, created on first use; a key for this process only if none can be stored."""
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
    """Return the key in a file; None if there is none, or if other users can read or may have written it."""
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
    """Create a key and return it; if another run creates one at the same time, return the first of the two."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)  # mkstemp creates the file with mode 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(LENGTH))
    if path.is_file() and _read(path) is None:
        path.unlink()
    with suppress(FileExistsError):
        os.link(name, path)
    Path(name).unlink()
    return _read(path) or _passing_key()
