"""A command that calls what `tests.servers.prepared` forks, for programs that start it by its path."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from filelock import FileLock

from tests.servers.prepared import address_of

SOURCE = Path(__file__).with_name("caller.c")


@cache
def caller_of(program: str) -> tuple[Path, str]:
    """Return a command and its first argument, which others follow: a call of a prepared program.

    It is compiled once for this run, beside the address; the server removes both. Skips where there is no C compiler.
    """
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: install gcc")
    address = Path(address_of(program))
    command = address.with_name("caller")
    with FileLock(address.with_name("lock")):
        if not command.exists():
            subprocess.run(["cc", "-O1", "-o", command, SOURCE], check=True)
    return command, str(address)
