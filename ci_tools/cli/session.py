"""One run of a verb: its signals, and the exit status of what ended it."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ci_tools.cli import failures
from ci_tools.cli.dispatch import run
from ci_tools.cli.failures import drop_stdout, explain_os_error, print_error
from ci_tools.errors import DONE, FatwheelError

if TYPE_CHECKING:
    from rich.console import Console


def run_session(words: Sequence[str]) -> int:
    """Run the verb that a command line names and return its exit status."""
    stderr = functools.cache(_open_stderr)  # one console: rich keeps a live bar below the lines of its own console only
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C, so that unfinished work is cleaned up
    with failures.log_until_end():
        try:
            return run(stderr, words)
        except FatwheelError as error:
            return print_error(stderr(), error)
        except OSError as error:
            return explain_failure(error, stderr)


def _open_stderr() -> Console:
    from rich.console import Console

    return Console(stderr=True)


def explain_failure(error: OSError, stderr: Callable[[], Console] = _open_stderr) -> int:
    """Print which call of the system failed, and return the exit status; a reader of stdout may leave early."""
    if isinstance(error, BrokenPipeError):
        drop_stdout()  # `head` has read enough: that is not a failure
        return DONE
    return print_error(stderr(), explain_os_error(error))
