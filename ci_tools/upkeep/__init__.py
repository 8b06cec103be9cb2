"""What an index needs once it is published: read again and mended, files added and yanked, releases promoted."""

from __future__ import annotations

from ci_tools.upkeep.flaws import DAMAGED, GONE, NO_METADATA, OTHERS, STALE, UNFINISHED, UNLISTED, Flaw
from ci_tools.upkeep.look import verify
from ci_tools.upkeep.marks import yank
from ci_tools.upkeep.promotion import promote
from ci_tools.upkeep.repairs import repair
from ci_tools.upkeep.undo import undo_repair

__all__ = [
    "DAMAGED",
    "GONE",
    "NO_METADATA",
    "OTHERS",
    "STALE",
    "UNFINISHED",
    "UNLISTED",
    "Flaw",
    "promote",
    "repair",
    "undo_repair",
    "verify",
    "yank",
]
