"""Failures of a run: how they are explained and printed, and the exit statuses."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ci_tools.cli import verbose
from ci_tools.cli.tables.layout import plain
from ci_tools.errors import FatwheelError, MachineError
from ci_tools.github import commands
from ci_tools.github import step as steps
from ci_tools.machine.storage import NO_ROOM, cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console

LITTLE = 1 << 20  # bytes: a disk with less free space counts as full
STDOUT = "standard output"


def explain_os_error(error: OSError) -> MachineError:
    """Return an error for the failed system call, with the file or the full disk that it failed on."""
    place = error.filename2 or error.filename or (STDOUT if error.errno == errno.EBADF else None)  # it was closed
    if not place and error.errno in NO_ROOM:
        place = _full_disks()
    if place and STDOUT in place:
        drop_stdout()
    said = f"{error.strerror or error}{f' ({place})' if place else ''}"
    cache = cache_folder(os.environ)
    # If a folder cannot be created, the system names the topmost missing folder above it.
    explained = MachineError(said, hint="fix this and run the same command again")
    if place and error.errno not in NO_ROOM and _is_beside(Path(str(place)).absolute(), cache):
        msg = f"the cache {cache} cannot be used: {said}"
        explained = MachineError(msg, hint="set FATWHEEL_CACHE to a folder that you can write to")
    explained.__cause__ = error
    return explained


def _is_beside(place: Path, cache: Path) -> bool:
    """Whether a path is the cache, is in it, or contains it."""
    return place.is_relative_to(cache) or cache.is_relative_to(place)


def drop_stdout() -> None:
    """Discard the unprinted output: otherwise Python would try again to write it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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

    with silence_commands(os.environ):
        text = Text(plain(f"fatwheel: {error}"), style="red" if stderr.is_terminal and error.status else "")
        stderr.print(text, soft_wrap=True)
        for line in verbose.causes_of(error) if verbose.is_on() else ():
            stderr.print(Text(f"  {line}"), soft_wrap=True)
    for line in commands.annotations_of(error) if steps.is_on(os.environ) else ():
        print(line, file=sys.stderr)
    if error.status and (page := steps.page_of(os.environ)):
        with Path(page).open("a", encoding="utf-8") as file:
            file.write(commands.summarize(error))
    return error.status


@contextmanager
def silence_commands(environ: Mapping[str, str]) -> Iterator[None]:
    """Stop GitHub from reading workflow commands in the output: much of it is untrusted text of a project."""
    import secrets

    token = secrets.token_hex(16) if steps.is_on(environ) else ""
    if token:
        print(commands.stop(token), file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if token:
            print(commands.resume(token), file=sys.stderr, flush=True)
