"""Reports every few seconds what a run is waiting for, and for how long: a slow request, an upload, a lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

MINUTE, HOUR = 60, 3600
EVERY = 10.0  # seconds between two messages
LOOKS = 4  # checks in that time, so that a message is late by at most a quarter of it


class _Wait:
    """One wait that is going on."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.began = time.monotonic()
        self.words = 0  # the number of messages about it so far


class Waits:
    """The waits of one client; a thread reports them and ends when nothing is left to wait for."""

    def __init__(self, say: Callable[[str], None], every: float = 0.0) -> None:
        self._say = say
        self._every = every or EVERY
        self._lock = threading.Lock()
        self._begun: set[_Wait] = set()
        self._thread: threading.Thread | None = None

    @contextmanager
    def over(self, what: str) -> Iterator[None]:
        """Report every few seconds, while the body runs, that the run is waiting for `what`."""
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
        """Report the waits until two checks in a row find none."""
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
        """Return the next message about a wait; "" if it is not due yet."""
        seconds = time.monotonic() - wait.began
        if seconds < (wait.words + 1) * self._every:
            return ""
        wait.words += 1
        return f"waiting for {wait.what}: {seconds:.0f} s"


def duration(seconds: float) -> str:
    """Return a time for people: 3.1 s, 4 min 12 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{seconds:.1f} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE:02} min"
