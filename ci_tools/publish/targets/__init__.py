"""The targets of a release: each takes release units and updates every page atomically.

A target does its part of a transaction in four steps. Each step can be repeated, on another machine too, and continues
where the previous run stopped: a target is always asked for its state, which is never remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.index.units import Change, Item, Published, Unit

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
