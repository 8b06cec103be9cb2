"""Reports what a run is waiting for, and for how long: a slow request, an upload, an installation, a lock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

MINUTE, HOUR = 60, 3600
EVERY = 5.0  # seconds until the first message; until each other one, twice as long as until the last


class Waits(NamedTuple):
    """The waits of one client or run."""

    say: Callable[[str], None]
    every: float = 0.0  # in place of EVERY

    @contextmanager
    def over(self, what: str | Callable[[], str], done: Callable[[], int] = int) -> Iterator[None]:
        """Report now and then, while the body runs, that the run is waiting for `what`, or for what it then returns.

        The time counts from the last change of what `done` returns.
        """
        ended, started, before = threading.Event(), time.monotonic(), done()

        def speak() -> None:
            began, seen, due = started, before, self.every or EVERY
            while not ended.wait(began + due - time.monotonic()):
                if (now := done()) != seen:
                    began, seen, due = time.monotonic(), now, self.every or EVERY
                    continue
                named = what if isinstance(what, str) else what()
                self.say(f"waiting for {named}: {time.monotonic() - began:.0f} s")
                due *= 2

        threading.Thread(target=speak, daemon=True).start()
        try:
            yield
        finally:
            ended.set()


SILENT = Waits(lambda _: None)
OF_RUN: ContextVar[Waits] = ContextVar("OF_RUN", default=SILENT)  # those of the command that runs, which `cli` sets


def duration(seconds: float) -> str:
    """Return a time for people: 3.1 s, 4 min 12 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{seconds:.1f} s"
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE:02} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE:02} min"
