"""Chooses and fetches the wheel of a smart sdist for a machine that is described by its facts."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ci_tools.errors import InputError, MachineError, Rejected
from ci_tools.formats.json_file import structure_bytes
from ci_tools.formats.tar import UNREADABLE, tarfile
from ci_tools.install import fatwheel_backend as backend
from ci_tools.machine.storage import write_atomically
from ci_tools.machine.waits import OF_RUN


class Bundle(NamedTuple):
    """A folder from which a machine installs without a network: the wheel for it, and the command."""

    wheel: Path
    command: str


def here() -> backend.Facts:
    """Return the facts of this machine and Python."""
    return backend.find_facts(backend.Wishes("", {}, {}))


def write_facts(facts: backend.Facts) -> str:
    """Return facts as JSON, for `read_facts` on another machine."""
    return json.dumps(facts._asdict(), indent=1) + "\n"


def read_facts(path: Path) -> backend.Facts:
    """Return the facts in a file; raise InputError if it has none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    return structure_bytes(data, backend.Facts, str(path), hint="`fatwheel install facts > FILE` there writes them")


def explain(sdist: Path, facts: backend.Facts) -> tuple[str, bool]:
    """Return which wheel of a smart sdist a machine gets, as a table for people, and whether one fits."""
    lock = _lock_of(sdist)
    choice = backend.choose(lock, facts)
    return backend.explain(lock, facts, choice) + "\n", choice.wheel is not None


def make_bundle(sdist: Path, facts: backend.Facts, out: Path, environ: Mapping[str, str]) -> Bundle:
    """Put the wheel of a smart sdist that fits a machine into a folder, its hash checked.

    Raises Rejected if none fits, MachineError if it cannot be fetched.
    """
    lock = _lock_of(sdist)
    choice = backend.choose(lock, facts)
    if choice.wheel is None:
        raise Rejected(backend.explain(lock, facts, choice))
    place = backend.Wishes(lock["project"], {}, environ).get("wheels")
    try:
        with OF_RUN.get().over(f"{choice.wheel['file']} from its server"):
            path = backend.fetch(choice.wheel, place, backend.cache_folder(environ))
    except backend.Unreachable as error:
        raise MachineError(str(error), hint="run the same command again: what was fetched is kept") from error
    wheel = out / choice.wheel["file"]
    with write_atomically(wheel) as sink, path.open("rb") as source:
        shutil.copyfileobj(source, sink)
    version = wheel.name.split("-")[1]
    return Bundle(wheel, f"pip install --no-index --find-links {out} {lock['project']}=={version}")


def _lock_of(sdist: Path) -> backend.Lock:
    """Return the lock in a smart sdist; raise InputError if it has none."""
    with _member(sdist) as path:
        try:
            return backend.read_lock(path)
        except SystemExit as error:
            msg = str(error).strip()
            raise InputError(msg) from error


@contextmanager
def _member(sdist: Path) -> Iterator[Path]:
    """Yield the path of a copy of the lock in an sdist."""
    name = f"{sdist.name.removesuffix('.tar.gz')}/{backend.LOCK}"
    try:
        with tarfile.open(sdist, "r:gz") as archive:  # PEP 625; else tarfile tells of each form that it tried
            file = archive.extractfile(name)
            data = file.read() if file else b""
    except UNREADABLE as error:
        why = getattr(error, "strerror", None) or error  # not the system's number of it
        raise InputError(f"{sdist} cannot be read: {why}, expected the .tar.gz file of a smart sdist") from error
    except KeyError as error:
        msg = f"{sdist} has no {backend.LOCK}: it is not a smart sdist"
        raise InputError(msg, page="how-to/install-from-pypi.md#release-it") from error
    with tempfile.TemporaryDirectory(prefix="fatwheel-") as folder:
        path = Path(folder, backend.LOCK)
        path.write_bytes(data)
        yield path
