"""Runs act so that it gives no step a terminal, as GitHub gives none: a script for `harness`, not a module to import.

act 0.2.89 gives each step a terminal if the system has one, and pipes otherwise. Two acts that ran at once were seen to
write into one terminal, and one of them waited for ever. So act is not told the number of a terminal (ioctl_tty(2)).
Where this machine has no filter of system calls, act runs as it is.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

SANDBOX = Path(__file__).parents[2] / "ci_tools" / "sandbox"
NUMBER_OF_TERMINAL = 0x80045430  # TIOCGPTN


def refuse_terminals() -> None:
    """Let no process of this one's be told the number of a terminal that it opens."""
    sys.path.insert(0, str(SANDBOX))
    confined: Any = importlib.import_module("_confined")
    column = confined.ARCHITECTURES[os.uname().machine].column
    steps = [
        (confined.LOAD, 0, 0, confined.NUMBER),
        *confined._where(confined.IOCTL[column], confined._never(1, (NUMBER_OF_TERMINAL,))),  # noqa: SLF001 - our own
        (confined.RETURN, 0, 0, confined.ALLOW),
    ]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(confined.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)  # or only root may filter (seccomp(2))
    confined._restrict_calls(libc, steps)  # noqa: SLF001 - see above


if __name__ == "__main__":
    if sys.platform == "linux":
        with suppress(KeyError, OSError):  # another processor, or a kernel that has no such filter
            refuse_terminals()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - act, as harness names it
