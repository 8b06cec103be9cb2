"""The flaws that an index can have, in a sentence each."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

GONE = "the file is gone"
DAMAGED = "the file has other bytes than its manifest says"
OTHER_SIZE = "its manifest gives the file another size"
LOST = MappingProxyType(  # by the file's `lost` in the manifest
    {
        "gone": "the file is still gone; no page lists it",
        "damaged": "the file still has other bytes than its manifest says; no page lists it",
    }
)
BACK = "its bytes are back, and no page lists it"
NO_METADATA = "the METADATA beside the file is missing or differs"
UNREAD = "it cannot be read now"  # followed by the reason
STALE = "the page differs from its manifest"
OTHERS = "others wrote the page or added to it, or it is incomplete"
NOT_ON_IT = "the page is shared with others, and does not list"  # followed by the missing items
UNLISTED = "no page lists it: a publisher was interrupted, or is still running"
UNFINISHED = "it lacks a project or a folder: a publisher was interrupted, or is still running"
BROKEN = "it is damaged"  # followed by the reason


class IndexFlaw(NamedTuple):
    """A part of an index that disagrees with its manifests, and how it was repaired."""

    key: str
    what: str
    done: str = ""
    is_left: bool = False  # whether it could not be repaired
