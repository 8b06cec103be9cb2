"""An index of 100,000 wheels written whole, and one wheel published into it, beside dumb-pypi.

What is written whole is every page from what the index keeps for itself: no wheel is read, by us or by them. Each is a
process of its own from its start to its end, ours and theirs in turns, and the least of several runs counts: seconds
of the processor, in the process and in the system, which others' work on the machine changes less than a clock's.

22 November 2026, two cores that others kept busy, `python -m tests.benchmarks index`: 10.4 s beside dumb-pypi's 26.2 s
(0.396; the same measure gave 1.0 before a file was spelled once for all pages), 139 MiB beside its 156. On a disk in
memory 10.8 s of 28.8 s (0.375). Of ours, 0.75 s are the start, 1.9 s the check of every manifest entry, 2.2 s the
finder's data, which dumb-pypi does not write, 1.9 s the spelling of rows and pages, and from 1.4 s on the 5,000 files.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import Manifest
from ci_tools.index.objects.store import FolderStore
from ci_tools.index.pages import IndexedFile
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Silent
from tests.builders import releases
from tests.builders.wheels import make

PROJECTS, VERSIONS = 1_000, 100
FEW = 10  # projects of a small index
REPEATED = 5
ROUNDS = 3
REBUILD = "import sys, pathlib; from tests.benchmarks.index import rebuild; rebuild(pathlib.Path(sys.argv[1]))"


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit); a unit of `x` is so many times the work it is compared with."""
    with tempfile.TemporaryDirectory(prefix="fatwheel-index-") as folder:
        yield from _whole(Path(folder), install_peers(Path(folder), "dumb-pypi==1.15.0"))


def install_peers(folder: Path, *peers: str) -> Path:
    """Install peers into an environment of their own, and return its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", folder / "peers"], check=True)
    programs = folder / "peers" / "bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *peers], check=True)
    return programs


# ---------------------------------------------------------------- every page


def _whole(folder: Path, peers: Path) -> Iterator[tuple[str, float, str, float]]:
    small = _filled(folder / "small", FEW)
    names = folder / "list.json"
    entries = [
        _listed(make_entry(_project(number), version)) for number in range(PROJECTS) for version in range(VERSIONS)
    ]
    names.write_text("".join(entries))
    command = [peers / "dumb-pypi", "--package-list-json", names, "--packages-url", "../../pool"]
    options = ["--no-per-release-json", "--output-dir"]
    ours, theirs = [], []
    for run in range(ROUNDS):  # each into a new folder: to take up the places of files that were just removed is slow
        large = _filled(folder / f"large{run}", PROJECTS)
        ours.append(_spend([sys.executable, "-c", REBUILD, folder / f"large{run}"]))
        theirs.append(_spend([*command, *options, folder / f"dumb{run}"]))
    least, most = (min(spent.seconds for spent in each) for each in (ours, theirs))
    yield f"every page of {PROJECTS * VERSIONS:,} wheels", least, "s", 120
    yield "the same, over dumb-pypi (five pages of each project to its two)", least / most, "x", 0.5
    yield "memory at its peak", max(spent.memory for spent in ours), "MiB", 200
    _rebuild(small)
    one = [add_one(folder, index, run) for run in range(REPEATED) for index in (large, small)]
    among = f"{PROJECTS * VERSIONS:,}, over one among {FEW * VERSIONS:,}"
    yield f"one wheel more among {among}", min(one[::2]) / min(one[1::2]), "x", 2
    longer = folder / "longer.json"
    longer.write_text("".join([*entries, _listed(make_entry(_project(0), VERSIONS))]))
    command[2] = longer
    options[:0] = ["--previous-package-list-json", names]
    again = seconds(lambda: subprocess.run([*command, *options, folder / "dumb0"], check=True))
    yield "one wheel more, over dumb-pypi's rebuild of what changed", min(one[::2]) / again, "x", 0.5


class Spent(NamedTuple):
    """What a process has taken."""

    seconds: float  # of the processor
    memory: float  # MiB at its peak


def _spend(command: list[str | Path]) -> Spent:
    """Run a program to its end, and return what it took."""
    with subprocess.Popen(command) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Spent(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def rebuild(root: Path) -> None:
    """Read every manifest of the index in a folder, and write every page."""
    _rebuild(WheelIndex(FolderStore(root, Silent()), order=0))


def _rebuild(index: WheelIndex) -> None:
    ledger = Ledger(index.store, "")
    index.show(ledger, [ledger.manifest(project) for project in sorted(ledger.projects())])


# ---------------------------------------------------------------- what is in it


def _filled(root: Path, projects: int) -> WheelIndex:
    """Return an index that keeps so many projects, of which no page is written yet."""
    index = WheelIndex(FolderStore(root, Silent()), order=0)
    ledger = Ledger(index.store, "")
    for number in range(projects):
        files = [make_entry(_project(number), version) for version in range(VERSIONS)]
        found = Manifest(_project(number), files={file.name: file for file in files})
        ledger.change_manifest(_project(number), lambda _, found=found: found)
    return index


def _project(number: int) -> str:
    return f"project{number:04}"


def make_entry(project: str, version: int) -> IndexedFile:
    """Return what an index says of a wheel."""
    name = f"{project}-{version}.0-py3-none-any.whl"
    sha256 = hashlib.sha256(name.encode()).hexdigest()
    return IndexedFile(name, "", sha256, 10**6, "2026-01-01T00:00:00Z", ">=3.10", sha256)


def _listed(file: IndexedFile) -> str:
    """Return a file as dumb-pypi is told of it."""
    entry = {"filename": file.name, "hash": f"sha256={file.sha256}", "requires_python": file.requires_python}
    return json.dumps({**entry, "core_metadata": f"sha256={file.metadata_sha256}"}) + "\n"


def add_one(folder: Path, index: WheelIndex, run: int) -> float:
    """Publish one wheel more of the first project, and return how many seconds that took."""
    wheel = make(folder / "one", f"{_project(0)}-{VERSIONS + run}.0-py3-none-any.whl")
    release = releases.unit(_project(0), releases.item(wheel), version=f"{VERSIONS + run}.0")
    return seconds(lambda: releases.publish(index, release))


def seconds(work: Callable[[], object]) -> float:
    """Return how many seconds some work took."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
