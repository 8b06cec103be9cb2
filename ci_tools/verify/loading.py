"""Tries whether a package does without a library of its wheel: it is imported with a file there that nothing loads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ci_tools.formats.wheel import open_wheel
from ci_tools.machine.process import run, tail
from ci_tools.machine.workplace import scratch
from ci_tools.verify.validator import own_imports

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

__all__ = ["explain_failed_import"]

UNLOADABLE = b"no library: as good as one for a newer torch\n"
SECONDS = 600  # as long as a validation may take by default


def explain_failed_import(
    wheel: Path, spared: Collection[str], python: Path, variables: Mapping[str, str], log: Path
) -> str:
    """Return why the wheel's packages cannot be imported without the spared libraries; "" if they can.

    `python` is an interpreter with everything that the packages import besides, above all torch.
    """
    with scratch() as folder:
        found = open_wheel(wheel)
        with found.archive:
            found.archive.extractall(folder)
        for member in spared:
            (folder / member).write_bytes(UNLOADABLE)
        for module in own_imports(wheel):
            command: list[str | Path] = [python, "-c", f"import {module}"]
            env = {**variables, "PYTHONPATH": os.fspath(folder)}
            ended = run(command, log=log, cwd=folder, env=env, timeout=SECONDS)
            if ended.status:
                return f"`import {module}` fails without {', '.join(spared)}: {tail(log, 1, ended.start)}"
    return ""
