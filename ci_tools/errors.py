"""All errors that Fatwheel raises on purpose: a sentence, an optional hint and page of the docs, an exit status."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = re.compile(r"\d+(\.\d+)+t?")  # 2.10, 2.13.0, 3.14t
MINOR = re.compile(r"\d+\.\d+t?")
DOCUMENTATION = "docs/"  # the folder of the pages in the repository
MOST_SHOWN = 50  # problems listed for one input


class FatwheelError(Exception):
    """An error with one sentence for the user, an optional hint, and an exit status.

    `page` is the page of the documentation that helps, with its anchor: `how-to/read-a-plan.md#more`.
    """

    status: ClassVar[int]

    def __init__(self, message: str, *, hint: str = "", page: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.page = page
        self.standing = ""  # the work done before the error, and what the same command does next

    def __str__(self) -> str:
        """Return the sentence, followed by the hint, the standing and the page, each on a separate line."""
        hint = f"hint: {self.hint}" if self.hint else ""
        page = f"See {DOCUMENTATION}{self.page}" if self.page else ""
        return "\n  ".join(filter(None, (self.message, hint, self.standing, page)))


class Rejected(FatwheelError):
    """The work was done and judged bad: a failed build, an audit finding, a failed validation."""

    status = 1


class InputError(FatwheelError):
    """The input is wrong: an argument, a config, a source tree."""

    status = 2


class LabelError(InputError):
    """The project's version has a label that no released version and no tag leaves out."""


class ShallowError(InputError):
    """The project's version needs more of its history than the checkout has."""


class MachineError(FatwheelError):
    """The machine or the network failed, and trying again may help."""

    status = 3


class LeftUndone(FatwheelError):
    """There is nothing to do here, or no way to, and nobody did anything wrong."""

    status = 0


class Problem(NamedTuple):
    """One mistake in the user's input: where it is (`file:line:column`) and what is wrong with it."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class RejectedInput(InputError):
    """Every problem found in one input, reported together."""

    def __init__(self, problems: Iterable[Problem], *, hint: str = "", page: str = "") -> None:
        self.problems = tuple(problems)
        more = len(self.problems) - MOST_SHOWN
        lines = [*map(str, self.problems[:MOST_SHOWN]), *([f"and {more} more"] if more > 0 else [])]
        super().__init__("\n".join(lines), hint=hint, page=page)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return `did you mean …?` for the closest of `names`, or a list of the names if none is close.

    If several names extend this name with a dash, all of those are listed. Versions are never compared by their
    characters: 2.16 is not close to 2.6.
    """
    known = sorted(names)
    if VERSION.fullmatch(name) and all(map(MINOR.fullmatch, known)):
        return f"known: {', '.join(sorted(known, key=_by_number))}"
    longer = [one for one in known if name and one.startswith(f"{name}-")]
    if len(longer) > 1:
        return f"expected one of {', '.join(longer)}"
    import difflib  # noqa: PLC0415 - only a mistake pays for it

    cutoff = 0.6 if name[:1].isdigit() else 0.5  # 3.9 is not a misspelt 3.15
    close = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return f'did you mean "{close[0]}"?' if close else f"known: {', '.join(known)}"


def _by_number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
