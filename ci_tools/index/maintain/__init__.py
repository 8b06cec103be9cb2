"""Maintenance of a published index: verify and repair it, add and yank files, promote releases."""

from __future__ import annotations

from ci_tools.index.maintain.look import IndexFlaw, verify
from ci_tools.index.maintain.marks import yank
from ci_tools.index.maintain.repairs import repair
from ci_tools.index.maintain.undo import undo_repair

__all__ = ["IndexFlaw", "repair", "undo_repair", "verify", "yank"]
