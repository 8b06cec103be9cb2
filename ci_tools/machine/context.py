"""What library code needs of the world, handed to it: variables, a cache folder, and somebody to tell."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["Outside", "Reporter", "Silent", "Step"]


class Step(Protocol):
    """One step under way."""

    def progress(self, done: int, total: int) -> None:
        """Hear how far it is: bytes done, and bytes in all (0 where that is not known)."""

    def waiting(self, seconds: float) -> None:
        """Hear that it waits, and for how long still."""

    def result(self, text: str) -> None:
        """Hear what to say of it once it has ended."""


class Reporter(Protocol):
    """Whoever shows the user what goes on."""

    def say(self, line: str) -> None:
        """Show one line."""

    def step(self, title: str) -> AbstractContextManager[Step]:
        """Show a step while the body runs, and how it ended."""


class Silent:
    """A reporter, and a step, that shows nothing."""

    def say(self, line: str) -> None:
        """Drop the line."""

    def progress(self, done: int, total: int) -> None:
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
    """The world as one run sees it: the caller's variables, the user's cache folder, and who is told what goes on."""

    environ: Mapping[str, str]
    cache: Path
    reporter: Reporter
    trusts_source: bool = False  # whether a project's own code may run where this machine cannot confine it
