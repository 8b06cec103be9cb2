"""Reports the progress of a run on stderr: a line for each step, a live bar on a terminal, and where the time went."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Timer, get_ident
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import plain, readable_size
from ci_tools.github import step as steps
from ci_tools.machine.waits import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

    from ci_tools.build.jobs import Made
    from ci_tools.machine.context import Reporter, Step


EVERY = 30.0  # seconds between two lines about a long step in a log
LONG = 10.0  # seconds after which a log says that a step is under way, if it has said nothing
BUILD = "build"  # the first word of a step that has the project's own build in it
# Purposes of a step's time, by the first word of its title; the time of any other is in the rest.
TITLES = {
    "fetching": "fetch",
    "environments and repair": f"{BUILD} prepare",
    "audit": "audit",
    "trials": "validate install",
    "observing the build": "ask observe",
    "publishing": "stage publish upload uploading",
}
PURPOSES = {title: purpose for purpose, titles in TITLES.items() for title in titles.split()}
WAITING = ", waiting "  # in the title of a step that only waits
REST = "the rest"
LEAST = 0.05  # seconds: less is shown as 0.0


class TerminalReporter:
    """A reporter on stderr: one line per step, and a live line above it while the step runs on a terminal."""

    def __init__(self, console: Callable[[], Console]) -> None:
        self.console = console  # rich is imported when there is something to say
        self.said: set[str] = set()

    def say(self, line: str) -> None:
        """Show one line, unless this run has shown it before: what holds for one job holds for many."""
        from rich.text import Text

        if line not in self.said:
            self.said.add(line)
            self.console().print(Text(plain(line)), soft_wrap=True)

    @contextmanager
    def step(self, title: str) -> Iterator[_Step]:
        """Show the step's title with a bar while it runs, then one line with its result and duration."""
        started = time.monotonic()
        step = _Step(self.console(), title, self.say)
        with step.live or self._tell_begun(step):
            yield step
        took = time.monotonic() - started
        outcome = f": {step.outcome}" if step.outcome else ""
        self.say(f"{title}{outcome} ({took:.1f} s)")

    @contextmanager
    def _tell_begun(self, step: _Step) -> Iterator[None]:
        """Say in a log that a step is under way once it takes long: its own line comes when it ends."""

        def tell() -> None:
            if step.said == step.began:  # it has said nothing yet
                self.say(f"{step.title} is under way")

        timer = Timer(LONG, tell)
        timer.daemon = True  # the process ends without waiting for it
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


class _Step:
    """The live line of one step; in a log, a long step has a line now and then instead."""

    def __init__(self, console: Console, title: str, say: Callable[[str], None]) -> None:
        self.outcome = ""
        self.title = plain(title)
        self.say = say
        self.began = self.said = time.monotonic()
        self.live = _open_bar(console) if console.is_terminal else None  # its modules load longer than many a step runs
        if self.live:
            self.live.add_task(self.title, total=None)

    def progress(self, done: int, total: int) -> None:
        """Move the bar: bytes done, and bytes in total."""
        if self.live is None:
            self._say_now_and_then(done, total, readable_size(done), readable_size(total))
            return
        from rich.progress import DownloadColumn

        self._move(self.live, done, total, DownloadColumn())

    def count(self, done: int, total: int, parts: str) -> None:
        """Move the bar: parts done, and parts in total."""
        if self.live is None:
            self._say_now_and_then(done, total, f"{done:,}", f"{total:,} {parts}")
            return
        from rich.progress import MofNCompleteColumn, TextColumn

        self._move(self.live, done, total, MofNCompleteColumn(), TextColumn(parts))

    def _move(self, live: Progress, done: int, total: int, *columns: ProgressColumn) -> None:
        from rich.progress import BarColumn, TimeRemainingColumn

        if total and live.tasks[0].total is None:  # the bar comes with the first size that is known
            live.columns = (*live.columns, BarColumn(), *columns, TimeRemainingColumn())
        live.update(live.tasks[0].id, completed=done, total=total or None)  # rich shows a bar that pulses

    def _say_now_and_then(self, done: int, total: int, *shown: str) -> None:
        now = time.monotonic()
        if now - self.said < EVERY:
            return
        self.said = now
        left = (total - done) * (now - self.began) / done if done and total > done else 0  # else no speed is known
        end = f" of {shown[1]}, {left:.0f} s left" if left else ""
        self.say(f"{self.title}: {shown[0]}{end}")

    def waiting(self, seconds: float) -> None:
        """Count down beside the title."""
        if self.live:
            self.live.update(self.live.tasks[0].id, description=f"{self.title}: {seconds:.0f} s left")

    def result(self, text: str) -> None:
        """Set the end of the step's line."""
        self.outcome = text


def _open_bar(console: Console) -> Progress:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())  # [brackets]
    return Progress(*columns, console=console, transient=True)  # the line about the step takes its place


class TimedReporter:
    """A reporter that passes everything on to another, and adds up the time of the steps by their purpose.

    A step within a step counts once, for its own purpose. Steps of other threads do not count: they take no time of
    the run unless it waits for them.
    """

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.began = time.monotonic()
        self.thread = get_ident()
        self.inner = 0.0  # seconds of the steps that have ended within the running one
        self.spent: defaultdict[str, float] = defaultdict(float)  # seconds by purpose

    def say(self, line: str) -> None:
        """Show one line."""
        self.reporter.say(line)

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show a step while the body runs, and add its time to that of its purpose."""
        with self.reporter.step(title) as step:
            if get_ident() != self.thread:
                yield step
                return
            started, outer, self.inner = time.monotonic(), self.inner, 0.0
            try:
                yield step
            finally:
                took = time.monotonic() - started
                self.spent[_purpose(title)] += took - self.inner
                self.inner = outer + took

    def book(self, purpose: str) -> None:
        """Add the time so far that is no step's to a purpose, such as planning."""
        self.spent[purpose] += time.monotonic() - self.began - sum(self.spent.values())

    def say_times(self, made: Iterable[Made], environ: Mapping[str, str], what: str = "") -> None:
        """Show where the time of the run went, in a workflow also on the page of its job, after `what` was made."""
        line = self.summarize(sum(one.own_seconds for one in made))
        self.say(line)
        if page := steps.page_of(environ):
            with Path(page).open("a", encoding="utf-8") as file:
                file.write(f"{what}: {line}\n\n" if what else f"{line}\n\n")

    def summarize(self, own: float) -> str:
        """Return where the time of the run went: `own` seconds of the project's own builds, and all others."""
        spent = {purpose: seconds for purpose, seconds in self.spent.items() if purpose != REST}
        spent[PURPOSES[BUILD]] = spent.get(PURPOSES[BUILD], 0.0) - own
        others = time.monotonic() - self.began - own  # also what no step had
        spent[REST] = others - sum(spent.values())
        shown = sorted(spent.items(), key=lambda item: (item[0] == REST, -item[1]))  # the rest comes last
        parts = ", ".join(f"{purpose} {duration(seconds)}" for purpose, seconds in shown if seconds >= LEAST)
        built = f"the project's own build {duration(own)}, " if own else ""
        return f"time: {built}Fatwheel {duration(others)}{f' ({parts})' if parts else ''}"


def _purpose(title: str) -> str:
    """Return what the time of a step is for; a wheel that is built from the sdist is a trial of the sdist."""
    words = title.split()
    if WAITING in title:
        return "waiting"
    return PURPOSES["validate"] if words[0] == BUILD and "from" in words else PURPOSES.get(words[0], REST)
