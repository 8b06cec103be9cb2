"""Failures of a run: how they are explained and printed; and the output of `--verbose`, with the causes of errors."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli.tables.layout import plain
from ci_tools.errors import FatwheelError, MachineError
from ci_tools.github import commands
from ci_tools.github import step as steps
from ci_tools.machine.storage import NO_ROOM, cache_folder

if TYPE_CHECKING:
    from rich.console import Console

LITTLE = 1 << 20  # bytes: a disk with less free space counts as full
STDOUT = "standard output"
OURS = logging.getLogger("ci_tools")
HTTP = logging.getLogger("urllib3.connectionpool")  # below requests, PyGithub and boto3; it logs no header
PARTS = 8  # of its record of a request: scheme, host, port, method, path, protocol, status, size
VARIABLES = ("FATWHEEL_VERBOSE", "RUNNER_DEBUG")  # GitHub sets the second for a run with debug logging


def explain_os_error(error: OSError) -> MachineError:
    """Return an error for the failed system call, with the file or the full disk that it failed on."""
    place = error.filename2 or error.filename or (STDOUT if error.errno == errno.EBADF else None)  # it was closed
    if not place and error.errno in NO_ROOM:
        place = _full_disks()
    if place and STDOUT in place:
        drop_stdout()
    said = f"{error.strerror or error}{f' ({place})' if place else ''}"
    cache, there = cache_folder(os.environ), Path(str(place)).absolute()
    # If a folder cannot be created, the system names the topmost missing folder above it.
    explained = MachineError(said, hint="fix this and run the same command again")
    is_of_cache = there.is_relative_to(cache) or cache.is_relative_to(there)  # the folder above the cache
    if place and error.errno not in NO_ROOM and is_of_cache:
        msg = f"the cache {cache} cannot be used: {said}"
        explained = MachineError(msg, hint="set FATWHEEL_CACHE to a folder that you can write to")
    explained.__cause__ = error
    return explained


def drop_stdout() -> None:
    """Discard the unprinted output: otherwise Python would try again to write it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the number stays taken, so that no file gets it


def _full_disks() -> str:
    """Return the folders that this command writes to and that have no free space left."""
    import shutil
    import tempfile

    folders = dict.fromkeys((Path.cwd(), cache_folder(os.environ), Path(tempfile.gettempdir())))
    full = [str(folder) for folder in folders if folder.exists() and shutil.disk_usage(folder).free < LITTLE]
    return " or ".join(full) or f"{STDOUT}, or a file that the system does not name"


def print_error(stderr: Console, error: FatwheelError) -> int:
    """Print an error, in GitHub Actions also as annotations and on the job's page, and return its exit status."""
    from rich.text import Text

    with silence_commands(os.environ):  # an error quotes the project
        text = Text(plain(f"fatwheel: {error}"), style="red" if stderr.is_terminal and error.status else "")
        stderr.print(text, soft_wrap=True)
        for line in causes_of(error) if is_on() else ():
            stderr.print(Text(f"  {line}"), soft_wrap=True)
    for line in commands.annotations_of(error) if steps.is_on(os.environ) else ():
        print(line, file=sys.stderr)
    if error.status and (page := steps.page_of(os.environ)):  # LeftUndone has status 0
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(commands.summarize(error))
    return error.status


@contextmanager
def silence_commands(environ: Mapping[str, str]) -> Iterator[None]:
    """Stop GitHub from reading workflow commands in the output: much of it is untrusted text of a project."""
    import secrets

    token = secrets.token_hex(16) if steps.is_on(environ) else ""  # so that no output can end the pause by guessing
    if token:
        print(commands.stop(token), file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if token:
            print(commands.resume(token), file=sys.stderr, flush=True)


class _Lines(logging.Handler):
    """Prints each record as one line, above the live bar if there is one."""

    def __init__(self, stderr: Console) -> None:
        super().__init__(logging.DEBUG)
        self.stderr = stderr

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record; of urllib3, only connections and requests."""
        if record.name != HTTP.name or record.msg.startswith("Starting new"):  # "Starting new HTTPS connection (1): …"
            self._print(f"{record.name}: {record.getMessage()}")
        elif isinstance(record.args, tuple) and len(record.args) == PARTS:
            scheme, host, port, method, path, _, status, _ = record.args
            self._print(f"{HTTP.name}: {status} for {method} {scheme}://{host}:{port}{path}")

    def _print(self, line: str) -> None:
        from rich.text import Text

        self.stderr.print(Text(_safe(line), style="dim"), soft_wrap=True)


def is_wanted(environ: Mapping[str, str], *, asked: bool) -> bool:
    """Whether the command line or a variable asks for it."""
    return asked or any(environ.get(name) == "1" for name in VARIABLES)


def is_on() -> bool:
    """Whether records are printed."""
    return any(isinstance(handler, _Lines) for handler in OURS.handlers)


def start(stderr: Console) -> None:
    """Print records from now on, until the end of `log_until_end`; a verb that runs within another changes nothing."""
    if not is_on():  # or each line would be printed twice
        handler = _Lines(stderr)
        for logger in (OURS, HTTP):
            logger.addHandler(handler)
            logger.setLevel(logging.DEBUG)


@contextmanager
def log_until_end() -> Iterator[None]:
    """Undo `start` at the end of the body."""
    levels = [(logger, logger.level) for logger in (OURS, HTTP)]
    try:
        yield
    finally:
        for logger, level in levels:  # tests, and `ci step`, run several verbs in a process
            logger.setLevel(level)
            for handler in [handler for handler in logger.handlers if isinstance(handler, _Lines)]:
                logger.removeHandler(handler)


def causes_of(error: BaseException) -> Iterator[str]:
    """Yield a line for each cause of an error, the innermost last, without secrets."""
    seen = {id(error)}  # `raise … from …` can make a circle
    while (cause := error.__cause__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield _safe(f"caused by {type(cause).__name__}: {cause}")
        error = cause


def _safe(text: str) -> str:
    """Return a text on one line, without passwords and query strings."""
    return plain(text).replace("\n", "\\n")  # a record is one line, for who searches a log
