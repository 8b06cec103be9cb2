"""What pip's configuration files say, asked of pip itself, once in a run for each set of files."""

from __future__ import annotations

import ast
import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from ci_tools.errors import MachineError
from ci_tools.machine.process import output

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_pip_settings"]

# The variables by which pip finds its files: https://pip.pypa.io/en/stable/topics/configuration/#location
NAME_FILES = (
    *("APPDATA", "HOME", "PIP_CONFIG_FILE", "PROGRAMDATA", "SYSTEMROOT", "USERPROFILE"),
    *("XDG_CONFIG_DIRS", "XDG_CONFIG_HOME"),
)


def read_pip_settings(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings for `pip install` under the names of its variables, from its files and then `environ`.

    Raises MachineError if pip cannot tell: without them, files would come from other indexes.
    """
    return {**_read_files(tuple(environ.get(name, "") for name in NAME_FILES)), **environ}


@cache
def _read_files(values: tuple[str, ...]) -> dict[str, str]:
    """Return the settings in the files that pip finds by these values of the variables in `NAME_FILES`."""
    environ = {name: value for name, value in zip(NAME_FILES, values, strict=True) if value}
    if environ.get("PIP_CONFIG_FILE") == os.devnull:  # pip then reads no file
        return {}
    listed = output([sys.executable, "-m", "pip", "config", "list"], env=environ)
    if listed is None:
        msg = "pip does not list its settings, which say where files come from"
        raise MachineError(msg, hint=f"`{sys.executable} -m pip config list` shows why")
    pairs = [line.partition("=") for line in listed.splitlines()]
    ordered = sorted(pairs, key=lambda pair: pair[0].startswith("install."))  # a command's own section wins
    return {
        "PIP_" + key.partition(".")[2].upper().replace("-", "_"): " ".join(str(ast.literal_eval(value)).split())
        for key, _, value in ordered
        if key.startswith(("global.", "install."))
    }
