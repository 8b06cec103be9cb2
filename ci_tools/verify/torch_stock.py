"""Environments with torch for the trials of one run: torch is installed once, and its files are linked for each trial.

Measured: installing a CPU torch by pip takes 8 s, linking its 15,000 files 1 s, copying them 12 s. The installation can
run beside the build, which waits for one long compiler at its end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from contextvars import copy_context
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import TypeVar

from ci_tools.machine.process import STOP
from ci_tools.machine.python import Environment
from ci_tools.machine.workplace import remove, scratch

T = TypeVar("T")


class TorchStock:
    """Environments that already have torch, kept below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept: dict[str, tuple[Environment, dict[str, tuple[int, int, int]]]] = {}
        self._coming: dict[str, Future[Environment]] = {}
        self._background = Background()

    def prepare(self, what: str, create: Callable[[Path], Environment]) -> None:
        """Begin to create, in the background, what the first `lend` of `what` will yield; its error is raised there."""
        if what not in self._coming and what not in self._kept:
            used = self._place(what) / "env"
            self._coming[what] = self._background.start(lambda: self._create(used, create))

    def close(self) -> None:
        """Kill an installation that still runs in the background."""
        self._background.stop()

    @contextmanager
    def lend(self, what: str, log: Path, create: Callable[[Path], Environment]) -> Iterator[Environment]:
        """Yield an environment as `create` makes it, with its own log, and remove it afterwards.

        `what` says everything that decides what `create` makes in the folder it is given. All environments of the same
        `what` are at the same path, one after another, since scripts hold the path of their interpreter. A trial that
        has written into a file of torch spoils no other: the next one gets a new installation.
        """
        used, kept = self._place(what) / "env", self._place(what) / "kept"
        environment = self._link(what, kept, used)
        if environment is None:
            remove(kept)
            coming = self._coming.pop(what, None)
            environment = coming.result() if coming else self._create(used, create)
            with suppress(OSError):  # a file system without links, or a full disk: nothing is kept
                _link_files(used, kept)
                self._kept[what] = (environment, _list_files(kept))
        try:
            yield replace(environment, log=log)
        finally:
            remove(used)
            if what in self._kept and _list_files(kept) != self._kept[what][1]:
                del self._kept[what]

    def _place(self, what: str) -> Path:
        return self.folder / sha256(what.encode()).hexdigest()[:12]

    @staticmethod
    def _create(used: Path, create: Callable[[Path], Environment]) -> Environment:
        try:
            return create(used)
        except BaseException:
            remove(used)
            raise

    def _link(self, what: str, kept: Path, used: Path) -> Environment | None:
        if what not in self._kept:
            return None
        try:
            _link_files(kept, used)
        except OSError:
            remove(used)
            return None
        return self._kept[what][0]


@contextmanager
def open_stock() -> Iterator[TorchStock]:
    """Yield an empty stock in a temporary folder, which is removed afterwards."""
    with scratch() as folder, closing(TorchStock(folder)) as stock:
        yield stock


def _link_files(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, copy_function=os.link)


def _list_files(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return each file's size in bytes, time of the last change in ns, and mode, by its path.

    Paths are plain strings for speed: an environment with torch has 15,000 files.
    """
    paths = (f"{root}/{name}" for root, _, names in os.walk(folder) for name in names)
    found = ((path, os.lstat(path)) for path in paths)
    return {path: (stat.st_size, stat.st_mtime_ns, stat.st_mode) for path, stat in found}


class Background:
    """One thread that calls functions in turn."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._stop = Event()

    def start(self, function: Callable[[], T]) -> Future[T]:
        """Call `function` in the thread; its result, or its exception, is the future's."""
        context = copy_context()  # so that STOP, of the thread only, reaches what it runs
        context.run(STOP.set, self._stop)
        return self._pool.submit(context.run, function)

    def stop(self) -> None:
        """Kill the command that the thread runs, drop what has not begun, and wait for its end."""
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)
