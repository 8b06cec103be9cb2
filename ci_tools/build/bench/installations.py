"""Copies what pip installed for one build to the next builds of the run that require the same.

The sdist and the wheel of a project mostly have the same requirements, and pip takes longer than many a backend. No
build has worked with what is copied: it is as pip left it.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ci_tools.machine.installers import PIP
from ci_tools.machine.storage import stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ci_tools.machine.python import Environment

BUILDS = b"Building wheel"  # pip's line for a requirement without a wheel: how it is compiled depends on more
SCRIPT = b"#!"


class _Installation(NamedTuple):
    """A kept installation: its folder, how its files were when it was made, and the environment that it was made in."""

    folder: Path
    stamp: str
    origin: Path


class Installations:
    """The installations of one run, below a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, _Installation] = {}

    def fill(self, environment: Environment, asked: Sequence[str], install: Callable[[], None]) -> None:
        """Fill an environment by `install`, or with what that installed before; `asked` is all that decides it."""
        if environment.installer is not PIP or any(environment.packages.glob("*.dist-info")):
            install()  # uv needs no help, and with packages that were there before, pip may install fewer
            return
        settings = {name: value for name, value in environment.variables.items() if name.startswith("PIP_")}
        key = json.dumps([str(environment.python.resolve()), settings, *asked], sort_keys=True)
        known = self._known.get(key)
        if known and stamp_of(known.folder) == known.stamp:
            _restore(known, environment)
            return
        before, start = {*_files(environment.path)}, environment.log.stat().st_size
        install()
        with environment.log.open("rb") as log:
            log.seek(start)
            if BUILDS not in log.read():
                self._known[key] = self._keep(environment, before)

    def _keep(self, environment: Environment, before: set[Path]) -> _Installation:
        folder = self._folder / str(len(self._known))
        for path in {*_files(environment.path)} - before:
            kept = folder / path.relative_to(environment.path)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, kept, follow_symlinks=False)
        folder.mkdir(exist_ok=True)
        return _Installation(folder, stamp_of(folder), environment.path)


@contextmanager
def open_installations(copies: Path) -> Iterator[Installations]:
    """Yield the installations of a run, in a folder that is removed afterwards; `copies` is the user's own folder."""
    with tempfile.TemporaryDirectory(dir=copies, ignore_cleanup_errors=True) as folder:
        yield Installations(Path(folder))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def _restore(known: _Installation, environment: Environment) -> None:
    """Copy an installation into an environment; its scripts name the interpreter by its path."""
    shutil.copytree(known.folder, environment.path, symlinks=True, dirs_exist_ok=True)
    scripts = known.folder / environment.scripts.relative_to(environment.path)
    for path in (environment.scripts / kept.name for kept in scripts.glob("*")):
        content = path.read_bytes()
        if content.startswith(SCRIPT):
            path.write_bytes(content.replace(bytes(known.origin), bytes(environment.path)))
    with environment.log.open("a", encoding="utf-8") as log:
        log.write(f"what pip installed into {known.origin} is copied: the same is required\n")
