"""Keeps a process that forks one for each confined program: each start then takes a tenth of its processor time.

A program that is started without it needs two Pythons before its first line: one that ends it with its parent, and one
that confines it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.sandbox.groups import ForkServer
from ci_tools.sandbox.pool import Pool

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

STARTER = (sys.executable, "-I", "-S", Path(__file__).with_name("_starter.py"))
STARTERS: Pool[ForkServer] = Pool(lambda server: server.is_waiting, ForkServer.close)


def lend_starter() -> AbstractContextManager[ForkServer]:
    """Lend a server that nobody else uses; only Linux can fork confined processes."""
    return STARTERS.lend(lambda: ForkServer(STARTER, {}))
