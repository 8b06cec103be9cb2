"""Tries whether a package does without a library of its wheel: it is imported with a file there that nothing loads.

A loader that passes over what it cannot load hides a library that should be loaded. So the others are loaded as well.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ci_tools.formats.wheel import open_wheel
from ci_tools.machine.process import run, tail
from ci_tools.machine.workplace import scratch
from ci_tools.verify.modules import own_imports

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

UNLOADABLE = b"no library: as good as one for a newer torch\n"
SECONDS = 600  # as long as a validation may take by default
# The loader of the system resolves every symbol at once (RTLD_NOW), those of torch from the torch that is imported.
LOAD = "import ctypes, sys, torch; [ctypes.CDLL(name) for name in sys.argv[1:]]"
UNRESOLVED = re.compile(r"([^/\s]+\.so): undefined symbol: (\S+)")


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
            libraries = {
                info.filename.partition(".")[0] for info in found.libraries
            }  # those that are modules at the root
        for member in spared:
            (folder / member).write_bytes(UNLOADABLE)
        for module in (module for module in own_imports(wheel) if module not in libraries):
            command: list[str | Path] = [python, "-c", f"import {module}"]
            env = {**variables, "PYTHONPATH": os.fspath(folder)}
            ended = run(command, log=log, cwd=folder, env=env, timeout=SECONDS)
            if ended.status:
                return f"`import {module}` fails without {', '.join(spared)}: {tail(log, 1, ended.start)}"
    return ""


def explain_failed_load(
    wheel: Path, spared: Collection[str], python: Path, variables: Mapping[str, str], log: Path
) -> str | None:
    """Return which symbol a library of the wheel lacks with the torch of an interpreter; "" if all of them load.

    Those that the package does without are left out. None if the machine lacks something else, such as CUDA's own.
    """
    with scratch() as folder:
        found = open_wheel(wheel)
        with found.archive:
            found.archive.extractall(folder)
            names = [info.filename for info in found.libraries if info.filename not in spared]
        command: list[str | Path] = [python, "-c", LOAD, *(folder / name for name in names)]
        ended = run(command, log=log, cwd=folder, env=variables, timeout=SECONDS)
        if not ended.status:
            return ""
        lacking = UNRESOLVED.search(tail(log, 1, ended.start))
        return f"{lacking[1]} cannot be loaded with that torch: it has no {lacking[2]}" if lacking else None
