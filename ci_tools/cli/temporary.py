"""The temporary files of one run: all in one folder, which the next run can remove."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from ci_tools.errors import MachineError
from ci_tools.machine.workplace import scratch

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPORARY = "TMPDIR"  # the variable for the folder of temporary files (POSIX); Python reads it on every system


@contextmanager
def own_temporary() -> Iterator[None]:
    """Put all temporary files of this process and its commands into one folder, which the next run can remove.

    If no such folder can be created, the run goes on; who needs one will report that.
    """
    before, known = tempfile.tempdir, os.environ.get(TEMPORARY)
    with ExitStack() as stack:
        with suppress(OSError, MachineError):
            tempfile.tempdir = os.environ[TEMPORARY] = str(stack.enter_context(scratch()))
        try:
            yield
        finally:
            tempfile.tempdir = before
            os.environ.pop(TEMPORARY, None)
            os.environ.update({TEMPORARY: known} if known is not None else {})
