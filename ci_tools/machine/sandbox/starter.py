"""Keeps a process that forks one for each confined program: each start then takes a tenth of its processor time.

A program that is started without it needs two Pythons before its first line: one that ends it with its parent, and one
that confines it.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.machine.sandbox.groups import ForkServer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["lend_starter"]

STARTER = (sys.executable, "-I", "-S", Path(__file__).with_name("_starter.py"))
UNUSED: dict[int, list[ForkServer]] = {}  # by process: a forked one must not talk to the server of its parent


@contextmanager
def lend_starter() -> Iterator[ForkServer]:
    """Yield a server that nobody else uses; keep it for the next caller. Only Linux can fork confined processes."""
    unused = UNUSED.setdefault(os.getpid(), [])
    server = unused.pop() if unused else None
    if server and not server.is_waiting:
        server.close()
        server = None
    server = server or ForkServer(STARTER, {})
    try:
        yield server
    finally:
        unused.append(server)


@atexit.register
def end_unused() -> None:
    """End what this process keeps for its next caller."""
    for server in UNUSED.pop(os.getpid(), ()):
        server.close()
