"""The run's context: environment variables, cache folder and progress reporter, passed explicitly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ci_tools.machine.runner import host


class Step(Protocol):
    """One step that is running."""

    def progress(self, done: int, total: int) -> None:
        """Show its progress: bytes done, and bytes in total (0: unknown)."""

    def count(self, done: int, total: int, parts: str) -> None:
        """Show how many of its parts are done, such as `cells`."""

    def waiting(self, seconds: float) -> None:
        """Show that it is waiting, and for how many seconds more."""

    def result(self, text: str) -> None:
        """Set the text to show when it has ended."""


class Reporter(Protocol):
    """Shows progress to the user."""

    def say(self, line: str) -> None:
        """Show one line."""

    def step(self, title: str) -> AbstractContextManager[Step]:
        """Show a step while the body runs, and how it ended."""


class Silent:
    """A reporter, and a step, that show nothing."""

    def say(self, line: str) -> None:
        """Drop the line."""

    def progress(self, done: int, total: int) -> None:
        """Drop the figures."""

    def count(self, done: int, total: int, parts: str) -> None:
        """Drop the figures."""

    def waiting(self, seconds: float) -> None:
        """Drop the figure."""

    def result(self, text: str) -> None:
        """Drop the text."""

    @contextmanager
    def step(self, title: str) -> Iterator[Silent]:  # noqa: ARG002 - shows nothing
        """Show nothing."""
        yield self


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The context of one run: the caller's environment variables, the user's cache folder, and the reporter."""

    environ: Mapping[str, str]
    cache: Path
    reporter: Reporter
    trusts_source: bool = False  # whether a project's own code may run unconfined if this machine has no sandbox
    ends: float = math.inf  # when the run is to end, in the seconds of time.monotonic
    host: str = field(default_factory=host)  # the kind of machine in the catalog's words, such as linux-x86_64
