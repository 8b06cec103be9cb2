"""Explains a failed build: its cause, the line that shows it, the last lines of its log, and what helps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_tools.catalog.failures import BUILD, INSTALL, explain
from ci_tools.errors import Rejected
from ci_tools.machine.process import tail

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.errors import FatwheelError

FEW = 12  # last lines of a log whose cause is known


def build_error(log: Path, what: str, start: int = 0, source: Path | None = None) -> Rejected:
    """Return the error of a failed build, whose output is in the log from the byte `start` on.

    With a known cause: the cause, the line that shows it, with paths relative to `source`, and a hint.
    """
    before, output = (part.decode(errors="replace") for part in _split(log.read_bytes(), start))
    found = explain(output)
    if found is None:
        return Rejected(f"{what}; the last lines of {log}:\n{tail(log, start=start)}")
    says, quote = (text.replace(f"{source}/", "") for text in (found.says, found.quote))
    place = f"line {before.count(chr(10)) + found.line} of {log}, whose last lines are:"
    shown = "\n".join(f"  {line}" for line in (*quote.splitlines(), place))
    message = f"{what}: {says}\n{shown}\n{tail(log, FEW, start)}"
    return Rejected(message, hint=found.hint, page=found.page)


def _split(content: bytes, at: int) -> tuple[bytes, bytes]:
    return content[:at], content[at:]


def add_cause(error: FatwheelError) -> FatwheelError:
    """Return an error of an installer or of a backend's start, with the cause that its own words show, if known."""
    found = explain(error.message, INSTALL) or explain(error.message, BUILD)
    if found and not error.hint:
        error.hint, error.page = f"{found.says}: {found.hint}", found.page
    return error
