"""What goes wrong with a request, and what is tried again, how often and after how long; no other module says so.

urllib3 (below requests) tries a request again by these figures. botocore, for S3, takes only the number of tries: its
mode "standard" has pauses of its own. `RetryPolicy` tries again what they do not see: an answer that breaks off, bytes
that are not whole yet, a file that another publisher changed. No client is loaded here: it takes longer than a plan.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from ci_tools.addresses import redact
from ci_tools.errors import FatwheelError, MachineError

_T = TypeVar("_T")

CONNECTING = 10  # seconds until a server has to be reached
SILENCE = 60  # seconds without a byte; a server that was silent for so long is not asked again
TIMEOUT = (CONNECTING, SILENCE)
MAX_DOCUMENT = 64 << 20  # bytes of a list or a page, which is read as a whole
MAX_ASKED = 60.0  # seconds that a Retry-After can make a request wait (RFC 9110, 10.2.3)
NOT_YET = (408, 425, 429)  # too slow, too early, too many: statuses that may be others a moment later
SERVER_ERROR = 500
UNANSWERED = (
    OSError,  # requests' own exceptions among them
    ValueError,  # a malformed page or header, or a page of another kind (pypi_simple's UnsupportedContentTypeError)
)
GONE = (404, 410)  # an answer that the same request gets again (RFC 9110, 15.5)


class RetryPolicy(NamedTuple):
    """How often something is tried: again at once, then after pauses (seconds) that double up to the longest."""

    tries: int
    first: float
    longest: float

    def attempts(self) -> Iterator[float]:
        """Yield the seconds since the first try, before each try; sleep in between.

        Each pause is random, so that two publishers that collided do not collide again.
        """
        began = time.monotonic()
        for failed in range(self.tries):
            yield time.monotonic() - began
            if failed + 1 < self.tries:
                time.sleep(self.pause(failed) * random.uniform(0.5, 1))  # noqa: S311 - not for security

    def call(self, attempt: Callable[[], _T], *errors: type[Exception]) -> _T:
        """Return what `attempt` returns; call it again where it raises one of these errors, and raise the last."""
        caught: Exception | None = None
        for _ in self.attempts():
            try:
                return attempt()
            except errors as error:  # noqa: PERF203 - what failed is tried again
                caught = error
        raise caught or AssertionError

    def pause(self, failed: int) -> float:
        """Return the seconds before the next try, where this many have failed before the last one (as in urllib3)."""
        return min(self.first * 2.0 ** min(failed - 1, 30), self.longest) if failed else 0.0


REQUEST = RetryPolicy(5, 0.5, 8.0)  # one request, an upload to S3 among them, or the rest of one answer
BEAT = RetryPolicy(2, 0.5, 0.5)  # a request for a lock, which is useless when it is late
TORN = RetryPolicy(5, 0.1, 0.4)  # an object that is not whole: not every server writes atomically
CONTENTION = RetryPolicy(200, 0.2, 3.0)  # a file that others change too
# An index's page, which a cache may hold back, and a lock that another publisher holds: who waits has a limit of time.
LISTING = RetryPolicy(1 << 30, 0.25, 8.0)
QUEUE = RetryPolicy(1 << 30, 0.3, 1.0)


def is_temporary(status: int) -> bool:
    """Return whether a server that answers this status may answer another one later."""
    return status in NOT_YET or status >= SERVER_ERROR


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
