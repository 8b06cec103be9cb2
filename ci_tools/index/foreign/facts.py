"""What pages of others say of a file: its hashes and attributes, each checked that our pages can say it again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ci_tools.index.pages import Pairs


SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST = re.compile(r"[\w+/=:.-]{1,256}", re.ASCII)
KEY = re.compile(r"[a-z0-9_-]{1,64}")


def hashes_in(pairs: Iterable[tuple[str, object]]) -> tuple[str, Pairs]:
    """Return the sha256, and the other hashes: among them a sha256 that no file has, for which installers refuse it."""
    found = {name: value.lower() for name, value in pairs if isinstance(value, str)}
    sha256 = found.get("sha256", "")
    sha256 = sha256 if SHA256.fullmatch(sha256) else ""
    others = (pair for pair in found.items() if not sha256 or pair[0] != "sha256")
    return sha256, tuple(sorted(pair for pair in others if KEY.fullmatch(pair[0]) and DIGEST.fullmatch(pair[1])))


def metadata_in(values: Iterable[str]) -> tuple[str, Pairs]:
    """Return the sha256 of the METADATA beside a file; else what the page says of it: `true`, or another hash."""
    there = [value for value in values if value not in {"", "false"}]
    sha256, others = hashes_in(value.partition("=")[::2] for value in reversed(there))
    if sha256 or not there:
        return sha256, ()
    return "", (("core-metadata", next((f"{kind}={digits}" for kind, digits in others), "true")),)


def said_in(pairs: Iterable[tuple[str, object]]) -> Pairs:
    """Return what else a page says; an attribute without a value says nothing."""
    found = ((name, readable(value)) for name, value in pairs if isinstance(value, str))
    return tuple(sorted((name, value) for name, value in found if value and KEY.fullmatch(name)))


def readable(text: str) -> str:
    """Return text without lone surrogates, which cannot be encoded."""
    return text.encode(errors="replace").decode() if not text.isascii() else text
