"""Where a release goes: each target takes release units, and shows each of its pages old or new, never half.

A target does its part of a transaction in four steps. Each can be done again, on another machine as well, and goes on
where the one before it stopped: what is there is asked of the target, never remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_tools.publish.units import Change, Published, Unit

__all__ = ["UPLOADERS", "Target"]

UPLOADERS = ("twine", "uv")  # to PyPI and its like; the first is the default


class Target(Protocol):
    """One place that a release goes to."""

    @property
    def address(self) -> str:
        """How the user names it: s3://bucket/whl."""

    @property
    def order(self) -> int:
        """When it switches: the lowest comes first, and PyPI, which takes nothing back, comes last."""

    @property
    def stages(self) -> bool:
        """Whether it can hold files that nobody sees yet."""

    def check(self, unit: Unit) -> Sequence[Change]:
        """Return what publishing would change here; write nothing.

        Raises InputError or Rejected, with everything that is wrong, where this target cannot take the unit by its
        own rules, or holds one of its files with other bytes; MachineError where it does not answer.
        """

    def holds(self, unit: Unit) -> frozenset[str]:
        """Return the names of the files that everybody finds here of the unit's version; raise as `check` does."""

    def foresee(self, unit: Unit) -> None:
        """Raise what `check` will, as far as it is known of a unit of which only some files are made yet."""

    def stage(self, unit: Unit) -> None:
        """Bring every file here, where nobody who installs sees it yet."""

    def verify(self, unit: Unit) -> None:
        """Read every staged file's hash back; raise Rejected where it is not the unit's."""

    def switch(self, unit: Unit) -> Sequence[Published]:
        """Show the unit to everybody, and return its files here."""
