"""All errors that Fatwheel raises on purpose: a sentence, an optional hint and page of the docs, an exit status."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from ci_tools.addresses import redact

VERSION = re.compile(r"\d+(\.\d+)+t?")  # 2.10, 2.13.0, 3.14t
MINOR = re.compile(r"\d+\.\d+t?")
DOCUMENTATION = "docs/"  # the folder of the pages in Fatwheel's repository
SEE = f"See Fatwheel's {DOCUMENTATION}"  # before a page: the user's project may have docs of its own
MAX_SHOWN = 50  # problems listed for one input, or names for one mistake
MAX_COMPARED, LONGEST_COMPARED = 100, 120  # names, and characters of one: comparing takes the square of the length
DONE = 0
BAD = 1  # the work was done, and what it looked at is bad: as `Rejected`


class FatwheelError(Exception):
    """An error with one sentence for the user, an optional hint, and an exit status.

    `page` is the page of the documentation that helps, with its anchor: `how-to/read-a-plan.md#more`.
    """

    status: ClassVar[int]

    def __init__(self, message: str, *, hint: str = "", page: str = "") -> None:
        super().__init__(redact(message))
        self.message = redact(message)
        self.hint = redact(hint)
        self.page = page
        self.standing = ""  # the work done before the error, and what the same command does next

    def __str__(self) -> str:
        """Return the sentence, followed by the hint, the standing and the page, each on a separate line."""
        hint = f"hint: {self.hint}" if self.hint else ""
        page = f"{SEE}{self.page}" if self.page else ""
        return "\n  ".join(filter(None, (self.message, hint, self.standing, page)))

    @property
    def brief(self) -> str:
        """The first line of the sentence, and the last one, which may be the end of a log."""
        lines = self.message.splitlines()
        return " ".join([lines[0], *lines[1:][-1:]])


class Rejected(FatwheelError):
    """The work was done and judged bad: a failed build, an audit finding, a failed validation."""

    status = 1


class TimedOut(Rejected):
    """A command of a build took longer than it may."""


class InputError(FatwheelError):
    """The input is wrong: an argument, a config, a source tree."""

    status = 2


class LabelError(InputError):
    """The project's version has a label that no released version and no tag leaves out."""


class ShallowError(InputError):
    """The project's version needs more of its history than the checkout has."""


class TagError(InputError):
    """A git tag is of another project or version."""


class MachineError(FatwheelError):
    """The machine or the network failed, and trying again may help."""

    status = 3


class TimeLimit(MachineError):
    """A build stopped before its time limit, and the same command goes on from what it compiled."""


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
        self.problems = tuple(Problem(redact(one.where), redact(one.what)) for one in problems)
        more = len(self.problems) - MAX_SHOWN
        lines = [*map(str, self.problems[:MAX_SHOWN]), *([f"and {more} more"] if more > 0 else [])]
        super().__init__("\n".join(lines), hint=hint, page=page)


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1: `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def nearest(name: str, names: Iterable[str]) -> str:
    """Return `did you mean …?` for the closest of `names`, or a list of the names if none is close.

    If several names extend this name with a dash, all of those are listed. Versions are never compared by their
    characters: 2.16 is not close to 2.6.
    """
    known = sorted(names)
    if known and VERSION.fullmatch(name) and all(map(MINOR.fullmatch, known)):
        numbered = sorted(known, key=lambda one: [*map(int, re.findall(r"\d+", one))])
        return f"known: {', '.join(numbered)}"
    longer = [one for one in known if name and one.startswith(f"{name}-")]
    if len(longer) > 1:
        return f"expected one of {', '.join(longer)}"
    close = close_names(name, known, cutoff=0.6 if name[:1].isdigit() else 0.5)  # 3.9 is not a misspelt 3.15
    more = f", and {len(known) - MAX_SHOWN:,} more" if len(known) > MAX_SHOWN else ""
    return f'did you mean "{close[0]}"?' if close else f"known: {', '.join(known[:MAX_SHOWN]) or 'none'}{more}"


def close_names(name: str, names: Iterable[str], *, count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names that are most like this one, as difflib compares them, the best first.

    Of many names, only those with the most pairs of letters in common are compared; a very long one is like no other.
    """
    import difflib  # noqa: PLC0415 - only a mistake pays for it
    import heapq  # noqa: PLC0415

    known = [one for one in names if len(one) <= LONGEST_COMPARED] if len(name) <= LONGEST_COMPARED else []
    if len(known) > MAX_COMPARED:
        pairs = _letter_pairs(name)
        shares = {one: len(pairs & (own := _letter_pairs(one))) / (len(own) + 1) for one in known}
        known = heapq.nlargest(MAX_COMPARED, shares, key=shares.__getitem__)
    return difflib.get_close_matches(name, known, n=count, cutoff=cutoff)


def _letter_pairs(name: str) -> set[str]:
    return {name[at : at + 2] for at in range(len(name))}
