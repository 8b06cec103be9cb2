"""Keeps what takes long to prepare, such as a process that forks others, for the next caller who needs the same."""

from __future__ import annotations

import atexit
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Kept = TypeVar("Kept")


class Pool(Generic[Kept]):
    """Things that this process has prepared and nobody uses; all are closed when the process ends."""

    def __init__(self, is_usable: Callable[[Kept], bool], close: Callable[[Kept], None]) -> None:
        self.is_usable, self.close = is_usable, close
        self.unused: dict[int, list[Kept]] = {}  # by process: a forked one must not talk to the server of its parent
        atexit.register(self.empty)

    @contextmanager
    def lend(self, prepare: Callable[[], Kept], fits: Callable[[Kept], bool] = lambda _: True) -> Iterator[Kept]:
        """Yield one that fits and nobody else uses, or prepare one; keep it for the next caller."""
        unused = self.unused.setdefault(os.getpid(), [])
        found = next((one for one in unused if fits(one)), None)
        if found is not None:
            unused.remove(found)
            if not self.is_usable(found):
                self.close(found)
                found = None
        lent = prepare() if found is None else found
        try:
            yield lent
        finally:
            unused.append(lent)

    def empty(self) -> None:
        """Close what this process keeps for its next caller."""
        for one in self.unused.pop(os.getpid(), ()):
            self.close(one)
