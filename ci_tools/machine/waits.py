"""Says every few seconds what is waited for, and how long already: a request that nobody answers, an upload, a lock."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["EVERY", "Waits"]

EVERY = 10.0  # seconds between two words
LOOKS = 4  # in that time, so that a word comes at most a quarter of it late


class _Wait:
    """One thing that is waited for."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.began = time.monotonic()
        self.words = 0  # how many have been said of it


class Waits:
    """What one client waits for; a thread of its own speaks of it, for as long as there is something to wait for."""

    def __init__(self, say: Callable[[str], None], every: float = 0.0) -> None:
        self._say = say
        self._every = every or EVERY
        self._lock = threading.Lock()
        self._begun: set[_Wait] = set()
        self._thread: threading.Thread | None = None

    @contextmanager
    def over(self, what: str) -> Iterator[None]:
        """Say every few seconds, while the body runs, that `what` is waited for."""
        wait = _Wait(what)
        with self._lock:
            self._begun.add(wait)
            if self._thread is None or not self._thread.is_alive():  # a fork's child has none
                self._thread = threading.Thread(target=self._speak, daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._begun.discard(wait)

    def _speak(self) -> None:
        """Look round until there has been nothing to wait for twice in turn."""
        idle = 0
        while True:
            time.sleep(self._every / LOOKS)
            with self._lock:
                idle = 0 if self._begun else idle + 1
                if idle > 1:
                    self._thread = None
                    return
                lines = [line for wait in self._begun if (line := self._line(wait))]
            for line in lines:
                self._say(line)

    def _line(self, wait: _Wait) -> str:
        """Return what is to be said of a wait by now; nothing where its next word is not due."""
        seconds = time.monotonic() - wait.began
        if seconds < (wait.words + 1) * self._every:
            return ""
        wait.words += 1
        return f"waiting for {wait.what}: {seconds:.0f} s"
