"""Finds the verb that a command line names, and runs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from ci_tools import __version__
from ci_tools.cli import verbs
from ci_tools.errors import DONE

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from ci_tools.machine.context import Outside

HELP = ("-h", "--help")
TEMPORARY = "TMPDIR"  # the variable for the folder of temporary files (POSIX); Python reads it on every system


def help_of(words: Sequence[str]) -> str:
    """Return the page that a command line without a verb asks for: help or the version; else ""."""
    if words[:1] == ["--version"]:
        return f"fatwheel {__version__}\n"
    if words and words[0] in HELP:  # before any verb is imported
        return verbs.first_page()
    return verbs.group_page(words[0]) if words[1:] and words[0] in verbs.GROUPS and words[1] in HELP else ""


def parse(words: Sequence[str], environ: Mapping[str, str] = MappingProxyType({})) -> argparse.Namespace:  # read only
    """Return the options of a command line, or of variables in its place; raise InputError if one is wrong.

    `verb` is the name of the verb, and `variables` has the environment variables that set an option.
    """
    from ci_tools.cli import variables

    name, rest = verbs.split(words)
    return variables.parse(verbs.parser_of(name), rest, environ)


def run(stderr: Callable[[], Console], words: Sequence[str]) -> int:
    """Run the verb of a command line, and return its exit status; `stderr` is opened when it is written to."""
    from ci_tools.cli import failures, variables
    from ci_tools.machine.process import anchor
    from ci_tools.machine.waits import OF_RUN, Waits

    anchor(os.environ)  # before any program is looked for
    try:
        options = parse(words, os.environ)
    except SystemExit:  # after a page of help
        _flush_stdout()
        raise
    if failures.is_wanted(os.environ, asked=options.verbose):
        failures.start(stderr())
    outside = _outside(stderr, options)
    for line in variables.find_unknown(os.environ):
        outside.reporter.say(line)
    OF_RUN.set(Waits(outside.reporter.say))
    with _own_temporary(options.verb):
        status = verbs.find_run(options.verb)(options, outside) or DONE
    _flush_stdout()  # here, where a full disk is still reported as such
    return status


@contextmanager
def _own_temporary(verb: str) -> Iterator[None]:
    """Put the temporary files of this process and its commands into one folder, which the next run can remove.

    A verb that writes none gets no such folder. If none can be created, the run goes on; who needs one reports that.
    """
    if verb in verbs.WITHOUT_FILES:
        yield
        return
    import tempfile

    from ci_tools.errors import MachineError
    from ci_tools.machine.workplace import scratch

    before, known = tempfile.tempdir, os.environ.get(TEMPORARY)
    with ExitStack() as stack:
        with suppress(OSError, MachineError):
            # tempfile keeps the folder of its first use, whatever the variable says then
            tempfile.tempdir = os.environ[TEMPORARY] = str(stack.enter_context(scratch()))
        try:
            yield
        finally:
            tempfile.tempdir = before  # another run may follow in this process
            os.environ.pop(TEMPORARY, None)
            os.environ.update({TEMPORARY: known} if known is not None else {})


def _flush_stdout() -> None:
    from ci_tools.cli.failures import STDOUT

    try:
        sys.stdout.flush()  # Python would flush after the exit status is chosen
    except BrokenPipeError:  # a reader that has left, such as `head`, is not a failure: see `explain_failure`
        raise
    except OSError as error:
        error.filename = STDOUT  # the system names no file
        raise


def _outside(stderr: Callable[[], Console], options: argparse.Namespace) -> Outside:
    from ci_tools.cli.reporter import TerminalReporter
    from ci_tools.machine.context import Outside
    from ci_tools.machine.storage import cache_folder

    return Outside(
        environ=os.environ,
        cache=cache_folder(os.environ),
        reporter=TerminalReporter(stderr),
        trusts_source=getattr(options, "trust_source", False),  # most verbs run nothing of the project
    )
