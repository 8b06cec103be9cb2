"""What goes wrong with a request: the errors of clients, and ours. No client is loaded: it takes longer than a plan."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_tools.addresses import redact
from ci_tools.errors import FatwheelError, MachineError

if TYPE_CHECKING:
    from collections.abc import Iterator

UNANSWERED = (
    OSError,  # requests' own exceptions among them
    ValueError,  # a malformed page or header, or a page of another kind (pypi_simple's UnsupportedContentTypeError)
)
GONE = (404, 410)  # an answer that the same request gets again (RFC 9110, 15.5)


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
def explain_unanswered(
    what: str, page: str = "", *more: type[Exception], gone: type[FatwheelError] = MachineError
) -> Iterator[None]:
    """Raise MachineError, which begins with `what`, if a server does not answer, or not as it should.

    `gone` is raised instead where the server says that there is nothing at the address.
    """
    kinds: tuple[type[Exception], ...] = (*UNANSWERED, *more)
    try:
        yield
    except kinds as error:
        is_gone, msg = status_of(error) in GONE, f"{what}: {innermost(error)}"
        hint = "check the address" if is_gone else "check the network and run the same command again"
        raise (gone if is_gone else MachineError)(msg, hint=hint, page=page) from error
