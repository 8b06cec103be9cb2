"""Processes that publish, forked from one that has imported what they need: each starts at once, and may be killed."""

from __future__ import annotations

import os
import resource
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from ci_tools.index.foreign import adoption
from ci_tools.index.units import Unit
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets import Target
from ci_tools.publish.targets.addresses import index_of
from ci_tools.publish.targets.pypi import PyPITarget
from tests.builders import releases
from tests.builders.sources import world
from tests.servers.forking import CONTEXT
from tests.servers.uploads import unit_of

BEGUN = "begun"
OUTSIDE = Outside(environ=os.environ, cache=Path(os.devnull), reporter=Silent())


class Forked:
    """A function that runs in a process of its own; it gets `tell` besides its arguments, to say that it begins."""

    def __init__(self, function: Callable[..., object], *arguments: object, env: Mapping[str, str]) -> None:
        self.heard, told = CONTEXT.Pipe(duplex=False)
        self.process = CONTEXT.Process(target=_run, args=(function, arguments, dict(env), told))
        self.process.start()
        told.close()

    def begins(self) -> None:
        """Wait until the function has prepared its work."""
        assert self.heard.recv() == BEGUN

    def kill(self) -> None:
        """Kill the process, and wait until it has ended."""
        self.process.kill()
        self.process.join()

    def end(self) -> tuple[int, str]:
        """Wait until the function has ended; return 0, or the exit status and the error that it raised."""
        said = ""
        try:
            while (word := self.heard.recv()) == BEGUN:
                continue
            said = word
        except EOFError:  # it has ended without an error, or was killed
            pass
        self.process.join()
        return self.process.exitcode or 0, said


def fill_folder(root: Path, sources: Sequence[Path], limit: int, *, tell: Callable[[], None]) -> None:
    """Publish every wheel of some folders, no file larger than `limit` bytes (0: as large as it is).

    A folder's name is the index its wheels belong to.
    """
    target = releases.folder_index(root)
    wheels = [path for source in sources for path in sorted(source.glob("*.whl"))]
    unit = releases.unit("demo", *(releases.item(path, path.parent.name.strip("_")) for path in wheels))
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    tell()
    releases.publish(target, unit)


def fill_bucket(target: str, project: str, version: str, wheels: Sequence[Path], *, tell: Callable[[], None]) -> None:
    """Publish wheels to a bucket; what is for one accelerator lies in a folder of its name."""
    items = [releases.item(wheel, wheel.parent.name if "+cu" in wheel.name else "") for wheel in wheels]
    index = index_of(target, OUTSIDE)
    tell()
    releases.publish(index, releases.unit(project, *items, version=version))


def adopt(target: str, *, tell: Callable[[], None]) -> None:
    """Adopt the index of others in a bucket."""
    index = index_of(target, OUTSIDE)
    tell()
    adoption.adopt(index, (), OUTSIDE)


def upload(folder: Path, address: str, uploader: str, *, tell: Callable[[], None]) -> None:
    """Upload the files of a folder to an index."""
    target = PyPITarget(address, world(folder, **os.environ), uploader=uploader, patience=5.0)
    tell()
    target.switch(unit_of(*sorted(folder.glob("demo-*"))))


def measure_growth(target: Target, unit: Unit, grown: Synchronized[int]) -> None:
    """Publish to a target, and say by how many bytes the most memory that this process has had grows."""
    before = _peak()
    releases.publish(target, unit)
    grown.value = _peak() - before


def _peak() -> int:
    """Return the most memory that this process has had, in bytes; what resource says holds the parent's as well."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) << 10


def _run(function: Callable[..., Any], arguments: tuple[object, ...], env: Mapping[str, str], told: Connection) -> None:
    os.environ.clear()
    os.environ.update(env)
    try:
        function(*arguments, tell=lambda: told.send(BEGUN))
    except BaseException:  # noqa: BLE001 - as a Python that ends prints it
        told.send(traceback.format_exc())
        sys.exit(1)
