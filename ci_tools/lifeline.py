"""Runs a command for as long as whoever asked for it lives: a script for `process.run`, not a module to import.

Standard input is a pipe that nobody writes to. It ends when the asker does, however that came about, and then the
whole process group is killed: no compiler of a killed run is left to write into the next run's files.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> int:
    """Run the command in `argv` and return its exit status; 128 and the signal's number for one that a signal ended."""
    threading.Thread(target=_watch, daemon=True).start()
    status = subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL)
    return status if status >= 0 else 128 - status


def _watch() -> None:
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
