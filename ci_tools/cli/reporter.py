"""Reports the progress of a run on stderr: a line for each step, and a live bar on a terminal."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import plain, readable_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.progress import ProgressColumn, TaskID


__all__ = ["EVERY", "TerminalReporter"]

EVERY = 30.0  # seconds between two lines about a long step in a log


class TerminalReporter:
    """A reporter on stderr: one line per step, and a live line above it while the step runs on a terminal."""

    def __init__(self, console: Callable[[], Console]) -> None:
        self.console = console  # rich is imported when there is something to say

    def say(self, line: str) -> None:
        """Show one line."""
        from rich.text import Text

        self.console().print(Text(plain(line)), soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Iterator[_Step]:
        """Show the step's title with a bar while it runs, then one line with its result and duration."""
        started = time.monotonic()
        step = _Step(self.console(), title, self.say)
        with step.live:
            yield step
        took = time.monotonic() - started
        outcome = f": {step.outcome}" if step.outcome else ""
        self.say(f"{title}{outcome} ({took:.1f} s)")


class _Step:
    """The live line of one step; in a log, a long step has a line now and then instead."""

    def __init__(self, console: Console, title: str, say: Callable[[str], None]) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.outcome = ""
        self.title = plain(title)
        self.say = say
        self.began = self.said = time.monotonic()
        self.live = Progress(
            SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(), console=console,
            transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self.task: TaskID = self.live.add_task(self.title, total=None)

    def progress(self, done: int, total: int) -> None:
        """Move the bar: bytes done, and bytes in total."""
        if self.live.disable:
            self._say_now_and_then(done, total, readable_size(done), readable_size(total))
            return
        from rich.progress import DownloadColumn

        self._move(done, total, DownloadColumn())

    def count(self, done: int, total: int, parts: str) -> None:
        """Move the bar: parts done, and parts in total."""
        if self.live.disable:
            self._say_now_and_then(done, total, f"{done:,}", f"{total:,} {parts}")
            return
        from rich.progress import MofNCompleteColumn, TextColumn

        self._move(done, total, MofNCompleteColumn(), TextColumn(parts))

    def _move(self, done: int, total: int, *columns: ProgressColumn) -> None:
        from rich.progress import BarColumn, TimeRemainingColumn

        if total and self.live.tasks[0].total is None:
            self.live.columns = (*self.live.columns, BarColumn(), *columns, TimeRemainingColumn())
        self.live.update(self.task, completed=done, total=total or None)

    def _say_now_and_then(self, done: int, total: int, *shown: str) -> None:
        now = time.monotonic()
        if now - self.said < EVERY:
            return
        self.said = now
        left = (total - done) * (now - self.began) / done if done and total > done else 0
        end = f" of {shown[1]}, {left:.0f} s left" if left else ""
        self.say(f"{self.title}: {shown[0]}{end}")

    def waiting(self, seconds: float) -> None:
        """Count down beside the title."""
        self.live.update(self.task, description=f"{self.title}: {seconds:.0f} s left")

    def result(self, text: str) -> None:
        """Set the end of the step's line."""
        self.outcome = text
