"""The targets of a release: each takes release units and updates every page atomically.

A target does its part of a transaction in four steps. Each step can be repeated, on another machine too, and continues
where the previous run stopped: a target is always asked for its state, which is never remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from ci_tools.errors import FatwheelError, MachineError, Problem, RejectedInput

Said = TypeVar("Said")  # the answer of a target, such as the changes that it would make

if TYPE_CHECKING:
    from ci_tools.index.units import Change, Item, Published, Unit

    Answer = tuple["Target", tuple[Said, ...] | FatwheelError]

UPLOADERS = ("twine", "uv")  # for PyPI and similar indexes; the first is the default


class Target(Protocol):
    """One place where a release is published."""

    @property
    def address(self) -> str:
        """The target in the user's notation: s3://bucket/whl."""

    @property
    def order(self) -> int:
        """The place in the order of activation: the lowest comes first, and PyPI, which cannot be undone, last."""

    @property
    def stages(self) -> bool:
        """Whether the target can hold files that are not public yet."""

    def locate(self, item: Item, unit: Unit) -> str | None:
        """Return the address from which users will download a file of a unit; None if only the upload decides it."""

    def check(self, unit: Unit) -> Sequence[Change]:
        """Return what publishing would change here; write nothing.

        Raises InputError or Rejected, with all errors, if this target's rules do not allow the unit, or it holds one of
        its files with other bytes; MachineError if it does not answer.
        """

    def holds(self, unit: Unit) -> frozenset[str]:
        """Return the names of the public files of the unit's version here; raise as `check` does."""

    def foresee(self, unit: Unit) -> None:
        """Raise the errors of `check` that are already certain for a unit with only some of its files built."""

    def explain_private(self, unit: Unit) -> str:
        """Return why nobody without credentials can fetch the unit's files here, as far as it is known; "" otherwise.

        Raises MachineError or InputError if the target cannot be asked.
        """

    def stage(self, unit: Unit) -> None:
        """Upload every file, invisible to users who install."""

    def verify(self, unit: Unit) -> None:
        """Read every staged file's hash back; raise Rejected if it is not the unit's."""

    def switch(self, unit: Unit) -> Sequence[Published]:
        """Publish the unit, and return its files here."""


def ask_each(targets: Iterable[Target], ask: Callable[[Target], Iterable[Said]]) -> list[Answer[Said]]:
    """Return what each target answers, or why it refuses; raise MachineError if one does not answer."""
    return [(target, _answer(ask, target)) for target in targets]  # all of them, so that one run shows every refusal


def _answer(ask: Callable[[Target], Iterable[Said]], target: Target) -> tuple[Said, ...] | FatwheelError:
    try:
        return tuple(ask(target))
    except MachineError:
        raise
    except FatwheelError as error:
        return error


def accept(answers: Iterable[Answer[Said]]) -> list[tuple[Target, tuple[Said, ...]]]:
    """Return what the targets answered; raise RejectedInput with the refusals of all if one refuses."""
    refusals = [(target, answer) for target, answer in answers if isinstance(answer, FatwheelError)]
    if refusals:
        problems = (problem for target, error in refusals for problem in _problems(target, error))
        raise RejectedInput(problems, hint=refusals[0][1].hint)
    return [(target, answer) for target, answer in answers if not isinstance(answer, FatwheelError)]


def _problems(target: Target, error: FatwheelError) -> Iterator[Problem]:
    said = map(str, error.problems) if isinstance(error, RejectedInput) else [error.message]
    yield from (Problem("" if target.address in text else target.address, text) for text in said)
