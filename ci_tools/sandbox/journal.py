"""The FIFO into which confined processes write, and which they cannot read."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ci_tools.errors import MachineError
from ci_tools.sandbox.leftovers import clear

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


MAX_NOTED = 64 << 20  # bytes of a journal


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
