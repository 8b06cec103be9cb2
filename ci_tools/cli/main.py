"""The command `fatwheel`: prints a page, or runs the verb that the arguments name.

Nothing is imported here that `fatwheel --version` does not need: Python spends most of a short run on imports.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

INTERRUPTED = 130  # 128 + SIGINT, as in shells
MANY = 100_000  # new objects after which the garbage collector runs; Python's default is 700


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 done, 1 rejected, 2 wrong input, 3 machine failure."""
    try:
        return _run(arguments)
    except KeyboardInterrupt:  # here, as the modules take half of a second to load
        sys.stderr.write("interrupted; the same command goes on where this one stopped\n")
        return INTERRUPTED


def _run(arguments: Sequence[str] | None) -> int:
    from ci_tools.cli.dispatch import help_of

    _open_streams()
    words = sys.argv[1:] if arguments is None else arguments
    if page := help_of(words):  # without the session, and rich
        return _print_page(page)
    thresholds = gc.get_threshold()
    gc.set_threshold(MANY, *thresholds[1:])  # the collector takes a tenth of a plan's time, and finds next to nothing
    try:
        from ci_tools.cli.session import run_session

        return run_session(words)
    finally:
        gc.set_threshold(*thresholds)
        if arguments is None:  # the process ends: no need to search what is left
            gc.freeze()


def _open_streams() -> None:
    """Open the standard streams that the caller has closed: other files and programs would get their numbers.

    Writing to a closed standard output still fails: the result would be lost.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # as `fatwheel >&-` leaves it (sys.__stdout__)
            opened = os.open(os.devnull, os.O_RDWR if name == "stderr" else os.O_RDONLY)
            if opened != number:  # the system gives the lowest free number, mostly this one (POSIX: open)
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # noqa: FBT003 - its only way
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8"))  # noqa: PTH123, SIM115


def _print_page(page: str) -> int:
    try:
        sys.stdout.write(page)
        sys.stdout.flush()
    except OSError as error:
        from ci_tools.cli.session import explain_failure

        return explain_failure(error)
    return 0
