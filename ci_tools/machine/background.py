"""Work that a run does beside its main thread, and whose commands end with the run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Event
from typing import TYPE_CHECKING, TypeVar

from ci_tools.machine.process import STOP

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

T = TypeVar("T")


class Background:
    """One thread that calls functions in turn."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._stop = Event()

    def start(self, function: Callable[[], T]) -> Future[T]:
        """Call `function` in the thread; its result, or its exception, is the future's."""
        context = copy_context()
        context.run(STOP.set, self._stop)
        return self._pool.submit(context.run, function)

    def stop(self) -> None:
        """Kill the command that the thread runs, drop what has not begun, and wait for its end."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)
