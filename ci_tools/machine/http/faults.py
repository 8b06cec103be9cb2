"""What goes wrong with a request: the errors of clients, and ours. No client is loaded: it takes longer than a plan."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_tools.addresses import redact
from ci_tools.errors import MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator

UNANSWERED = (
    OSError,  # requests' own exceptions among them
    ValueError,  # a malformed page or header, or a page of another kind (pypi_simple's UnsupportedContentTypeError)
)


class NoParts(OSError):
    """A server sends files only as a whole."""


class TooLarge(OSError):
    """A file has more bytes than the caller wants."""


class BrokenOff(OSError):
    """An answer ended before its end, and may be whole the next time."""


def status_of(error: BaseException) -> int:
    """Return the status of the answer that a client's error is about; 0 without an answer."""
    return getattr(getattr(error, "response", None), "status_code", 0)


def innermost(error: BaseException) -> str:
    """Return the innermost cause of an error in a few words, without the addresses in the client's message."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__  # type: ignore[assignment]  # one of them is there
    first = str(error).partition("\n")[0]
    return redact(first.rpartition("] ")[2]) or type(error).__name__


@contextmanager
def explain_unanswered(what: str, page: str = "", *more: type[Exception]) -> Iterator[None]:
    """Raise MachineError, which begins with `what`, if a server does not answer, or not as it should."""
    kinds: tuple[type[Exception], ...] = (*UNANSWERED, *more)
    try:
        yield
    except kinds as error:
        msg = f"{what}: {innermost(error)}"
        raise MachineError(msg, hint="check the network and run the same command again", page=page) from error
