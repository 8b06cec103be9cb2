"""A place where builds of several machines share compile units: a folder or a bucket, with one file for each build.

A file is named for its project, the jobs of the build and its content, so that several machines can write at a time.
Nothing here fails a build: without the place, everything is compiled.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from ci_tools.build.units.launchers import SWITCH, find_store, list_forms, read_switch
from ci_tools.build.units.store import read_pack, write_pack
from ci_tools.catalog.targets import kind_of
from ci_tools.errors import FatwheelError, InputError, MachineError
from ci_tools.github import step as steps
from ci_tools.index.objects.store import Store, content_of_file
from ci_tools.machine.context import Outside
from ci_tools.machine.storage import sha256_of
from ci_tools.machine.workplace import scratch
from ci_tools.model.plan import Plan

SIZE, TAKEN = 5 << 30, 1 << 30  # bytes of a project's files at a place, and of those that one build takes
FILE = re.compile(r"(?P<project>[\w.-]+)/(?P<jobs>[\w.+-]+)-(?P<digest>[0-9a-f]{64})\.units")
MARKS = "taken"  # the folder of the store with the names of the files that it has


class PackFile(NamedTuple):
    """A file at a place."""

    key: str
    jobs: str
    size: int  # bytes


def open_place(address: str, outside: Outside) -> Store:
    """Return the place of an address, a folder or a bucket; raise InputError for another one."""
    kind = kind_of(address)
    if kind is None or not kind.is_index or not re.fullmatch(kind.pattern, address):
        raise InputError(f"{address} cannot share compile units, expected {' or '.join(list_forms())}")
    return cast("Store", kind.open(address, outside))


@contextmanager
def share_units(plan: Plan, names: Sequence[str], outside: Outside, *, keeps: bool = True) -> Iterator[None]:
    """Take what others compiled from the place that FATWHEEL_UNITS names, and put there what the body compiles.

    Of two places, it takes from the first and puts into the second. A pull request puts nothing there: others would
    read it. With `keeps` False nothing is put there either. Raises InputError for another address.
    """
    places = [open_place(address, outside) for address in read_switch(outside.environ)]
    if not places:
        yield
        return
    jobs = [*dict.fromkeys(job.batch or job.name for job in plan.jobs if job.name in names)]
    whose, began = (plan.project.name, jobs[0] if len(jobs) == 1 else "all"), time.time()
    event = outside.environ.get("GITHUB_EVENT_NAME", "") if steps.is_on(outside.environ) else ""
    with say_failure(f"{SWITCH}: nothing is taken", outside):
        take_units(places[0], *whose, outside)
    try:
        yield
    finally:  # units that were compiled before a failure are not compiled again
        if keeps and not (event.startswith("pull_request") or isinstance(sys.exc_info()[1], KeyboardInterrupt)):
            with say_failure(f"{SWITCH}: nothing is kept", outside):
                keep_units(places[-1], *whose, began, outside)


@contextmanager
def say_failure(what: str, outside: Outside) -> Iterator[None]:
    """Say why the body failed, and go on: compile units are a saving."""
    try:
        yield
    except (FatwheelError, OSError) as error:
        outside.reporter.say(f"warning: {what}: {error}")


def list_files(place: Store, project: str) -> list[PackFile]:
    """Return the files of a project at a place, the youngest first."""
    entries = sorted(place.entries(f"{project}/"), key=lambda entry: entry.modified, reverse=True)  # by time
    found = ((entry, FILE.fullmatch(entry.key)) for entry in entries)
    return [PackFile(entry.key, match["jobs"], entry.size) for entry, match in found if match]


def take_units(place: Store, project: str, jobs: str, outside: Outside) -> None:
    """Put into this machine's store what a place has of a project: of the same jobs first, then the youngest."""
    store, left = find_store(outside), TAKEN
    for file in sorted(list_files(place, project), key=lambda file: file.jobs != jobs):  # stable: the youngest first
        left -= file.size
        if left < 0:
            return
        if store.has(f"{MARKS}/{file.key}"):  # taken by an earlier build of this machine
            continue
        with scratch() as folder:
            harmed = read_pack(_fetch(place, file.key, folder / "pack"), store)
        if harmed:
            outside.reporter.say(f"{file.key}: {harmed} of its entries are damaged, and left out")
        store.write(f"{MARKS}/{file.key}", b"")


def _fetch(place: Store, key: str, path: Path) -> Path:
    with path.open("wb") as file:
        for chunk in place.chunks(key):
            file.write(chunk)
    return path


def keep_units(place: Store, project: str, jobs: str, since: float, outside: Outside) -> None:
    """Put at a place what a build used since a time; the oldest files go where there are too many."""
    with scratch() as folder:
        if write_pack(find_store(outside), since, folder / "pack"):
            _evict(place, project, _put(place, f"{project}/{jobs}", folder / "pack"))


def _put(place: Store, name: str, path: Path) -> str:
    """Put a file at a place, and return its key."""
    digest = sha256_of(path)
    key = f"{name}-{digest}.units"
    place.put(key, content_of_file(path, digest), instead_of=None)
    return key


def _evict(place: Store, project: str, *own: str) -> None:
    """Remove all but the newest file of each jobs', and the oldest of too many.

    Times are whole seconds, so that the files that were just put there are named: they are the newest.
    """
    newest, left = set[str](), SIZE
    for file in sorted(list_files(place, project), key=lambda file: file.key not in own):
        left -= file.size
        if file.jobs in newest or left < 0:
            place.remove(file.key)
        newest.add(file.jobs)


def copy_units(project: str, source: Store, target: Store) -> int:
    """Copy the files of a project from a place to another; return how many. Raises MachineError for a damaged one."""
    there, left, own = {file.key for file in list_files(target, project)}, SIZE, list[str]()
    for file in reversed(list_files(source, project)):  # the youngest last
        left -= file.size
        if file.key in there or left < 0:
            continue
        with scratch() as folder:
            path = _fetch(source, file.key, folder / "pack")
            if f"-{sha256_of(path)}.units" not in file.key:  # others will link what is in it
                msg = f"{source.address}: {file.key} is damaged: its content is not that of its name"
                raise MachineError(msg, hint="remove it: the next build writes another")
            own.append(_put(target, file.key.rpartition("-")[0], path))
    _evict(target, project, *own)
    return len(own)
