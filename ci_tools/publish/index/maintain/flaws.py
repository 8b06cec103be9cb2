"""What can be wrong with an index, in a sentence each."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

__all__ = [
    "BACK",
    "BROKEN",
    "DAMAGED",
    "GONE",
    "LOST",
    "NOT_ON_IT",
    "NO_METADATA",
    "OTHERS",
    "OTHER_SIZE",
    "STALE",
    "UNFINISHED",
    "UNLISTED",
    "UNREAD",
    "Flaw",
]

GONE = "the file is gone"
DAMAGED = "the file has other bytes than its manifest says"
OTHER_SIZE = "its manifest gives the file another size"
LOST = MappingProxyType(  # by what the manifest says of the file
    {
        "gone": "the file is still gone; no page lists it",
        "damaged": "the file still has other bytes than its manifest says; no page lists it",
    }
)
BACK = "its bytes are back, and no page lists it"
NO_METADATA = "no METADATA lies beside the file, or another one"
UNREAD = "it cannot be read now"  # and why
STALE = "the page is not what its manifest makes it"
OTHERS = "others wrote the page or added to it, or it is not whole"
NOT_ON_IT = "the page is not ours alone, and does not list"  # and what
UNLISTED = "no page lists it: a publisher was stopped, or is at work"
UNFINISHED = "it lacks a project or a folder: a publisher was stopped, or is at work"
BROKEN = "it is damaged"  # and why


class Flaw(NamedTuple):
    """Something of an index that is not as its manifests say, and what was done about it."""

    key: str
    what: str
    done: str = ""
    is_left: bool = False  # whether nothing could be done about it
