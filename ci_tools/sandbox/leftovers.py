"""Reads what a confined command leaves: files, without following a link, and lines in a FIFO."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ci_tools.errors import MachineError
from ci_tools.machine.process import output

MAX_NOTED = 64 << 20  # bytes of a journal


def read_safely(path: Path, most: int) -> bytes | None:
    """Return a file that a confined command left; None unless it is a regular file of at most `most` bytes.

    `path` must be free of symbolic links: any link on the way was put there by the command, and is not followed. A
    FIFO, which would block the reader, is not waited for.
    """
    if path.parent.resolve() != path.parent:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            return file.read() if stat.S_ISREG(status.st_mode) and status.st_size <= most else None
    except OSError:
        return None


def clear(path: Path) -> None:
    """Remove a folder that a confined command could write to, or the file or link that it put in its place.

    A link is removed, not its target. Raises MachineError if the folder remains. shutil.rmtree fails at a folder whose
    mode denies access, and in a tree too deep for Python's stack or for the files that a process may open; two programs
    do not, and take longer to start than it takes to remove a usual folder.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    with suppress(OSError, RecursionError):
        shutil.rmtree(path)
        return
    for command in (("chmod", "-R", "u+rwx"), ("rm", "-rf")):
        output([*command, "--", path], timeout=600)
    if path.exists():
        raise MachineError(f"{path} cannot be removed")


def make_pipe(path: Path) -> Path:
    """Create a FIFO, replacing any file at `path`; raise MachineError if the file system does not support FIFOs."""
    clear(path)
    try:
        os.mkfifo(path, 0o600)
    except OSError as error:
        msg = f"{path} cannot be made, expected a folder that can have a FIFO: {error.strerror}"
        raise MachineError(msg) from error
    return path.resolve()


class Journal:
    """The content of a FIFO, kept from the first byte on."""

    def __init__(self, source: int | None) -> None:
        self.source = source
        self.content = bytearray()

    def take(self) -> None:
        """Read the available bytes, and keep at most one more than the limit."""
        text = os.read(self.source, 1 << 20) if self.source is not None else b""
        self.content += text[: max(MAX_NOTED + 1 - len(self.content), 0)]


@contextmanager
def open_journal(journal: Path | None) -> Iterator[Journal]:
    """Yield the journal that reads a FIFO while the body runs."""
    if journal is None:
        yield Journal(None)
        return
    source = os.open(journal, os.O_RDONLY | os.O_NONBLOCK)
    held = os.open(journal, os.O_WRONLY)  # keeps the FIFO open after its first writer closes it
    try:
        yield Journal(source)
    finally:
        os.close(held)
        os.close(source)
