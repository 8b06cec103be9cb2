"""One release, published to every kind of target again and again, with another fault at another point each time.

While it is published a reader looks at each page and file as soon as it changes; afterwards the same publisher is run
once more, and what the targets then hold is compared with what an undisturbed run leaves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO, NamedTuple

from ci_tools.index import maintain
from ci_tools.index.maintain import look
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.addresses import index_of
from tests.builders.publishers import Ended, Job, Publishers, publishers
from tests.builders.transaction_readers import Reader, named_files, strip_changing
from tests.builders.transaction_sites import OWN, PREFIX, BucketSite, FolderSite, Site
from tests.builders.wheels import make
from tests.servers.buckets import CREDENTIALS, Bucket, moto
from tests.servers.faults import Event, Fault, Proxy, proxy

CHAINS = 2  # of points that are tried at the same time
EVERY = {  # of how many requests one is tried with each fault; killed at every one
    Fault.KILLED_BEFORE: 1,
    Fault.KILLED_AFTER: 1,
    Fault.ERROR: 13,
    Fault.BUSY: 14,
    Fault.TOO_MANY: 9,
    Fault.UNKNOWN: 11,
    Fault.DENIED: 7,
    Fault.SKEWED: 11,
    Fault.SILENT: 17,
    Fault.CUT_ANSWER: 7,
    Fault.CUT_UPLOAD: 4,
    Fault.CORRUPT: 3,
    Fault.LOOP: 11,
    Fault.ELSEWHERE: 13,
    Fault.PAGE: 11,
    Fault.PAGE_AFTER: 7,
    Fault.NO_TAG: 7,
    Fault.CHUNKED: 17,
    Fault.CUT_CHUNKS: 13,
    Fault.INTERIM: 17,
    Fault.HINTS: 17,
}
PHASES = ("check", "stage folder", "stage bucket", "publish folder", "publish bucket")
UPLOADS = frozenset({Fault.CUT_UPLOAD, Fault.CORRUPT})
LIMITS = (50, 75, 300, 1050, 1100, 1500)  # bytes that the disk has left for one file


class Point(NamedTuple):
    """One fault at one point of the transaction, and what became of it."""

    fault: str
    what: str  # GET, PUT, os.rename
    where: str
    step: str
    first: int  # how the disturbed run ended
    said: str
    again: int  # how the same run ended, done once more
    mended: str  # by what the targets came to hold what they should
    litter: tuple[str, ...]  # files that no page lists
    glimpsed: int  # how often a reader saw a wrong byte, until the run that had stored it put it right
    complaints: tuple[str, ...]  # of the readers, and of the comparison; none, if all is well


class World:
    """Every kind of target with one release in it, and a second one to come."""

    def __init__(self, folder: Path, bucket: Bucket, between: Proxy, workers: Publishers) -> None:
        self.folder, self.bucket, self.between, self.workers = folder, bucket, between, workers
        self.sites: tuple[Site, ...] = (FolderSite(folder / "index"), BucketSite(bucket, between.server_port))
        self.readers: list[Reader] = []
        to = (f"dir:{folder / 'index'}", bucket.target(PREFIX, between.server_port, timeout="1"))
        self.job = self._job("1.1", "cu130", to)
        self._ran(self._job("1.0", "", to))
        self.old = {site.address: site.state() for site in self.sites}
        for site in self.sites:
            site.keep()
        self.between.hook = self._saw_files
        self.between.seen = self._saw_request
        self.readers = self._readers(self.old)
        self._ran(self.job)
        self.events = list(self.between.events)
        self.new = {site.address: site.state() for site in self.sites}
        self.complaints = [flaw for site in self.sites for flaw in self._verified(site)]
        self.complaints += [flaw for reader in self.readers for flaw in reader.complaints if " names " in flaw]
        assert all(any(named_files(key, data) for key, data in reader.seen.items()) for reader in self.readers)

    def _job(self, version: str, accelerator: str, to: tuple[str, ...]) -> Job:
        names = [(f"demo-{version}-py3-none-any.whl", "")]
        names += [(f"demo-{version}+{accelerator}-py3-none-any.whl", accelerator)] if accelerator else []
        files = tuple((str(make(self.folder / "made", name)), where) for name, where in names)
        return Job("demo", version, files, to, str(self.folder / "journals"), tell=self.between.server_port)

    def _ran(self, job: Job, fault: Fault | None = None, at: int = 0) -> Ended:
        self.between.begin(fault, at)
        return self.workers.publish(job)[0]

    def _saw_files(self, event: Event) -> None:
        self._saw(event, self.sites[0])

    def _saw_request(self, event: Event) -> None:
        self._saw(event, self.sites[1])

    def _saw(self, event: Event, site: Site) -> None:
        for reader in self.readers:
            if reader.site is site:
                for key in site.changed(event):
                    reader.look(key)
            reader.may_change = reader.may_change or event.step == f"publish {reader.site.address}"

    def _readers(self, new: Mapping[str, Mapping[str, bytes]]) -> list[Reader]:
        return [Reader(site, self.old[site.address], new[site.address]) for site in self.sites]

    # -- a point

    def points(self) -> Iterator[tuple[Fault, int]]:
        """Yield every fault with the number of the event it happens at; for a full disk, the bytes left."""
        for number, event in enumerate(self.events, 1):
            if event.what.startswith("os."):
                yield Fault.KILLED_BEFORE, number
        requests = [(number, event) for number, event in enumerate(self.events, 1) if not event.what.startswith("os.")]
        for fault, every in EVERY.items():
            fit = [number for number, event in requests if event.size or fault not in UPLOADS]
            wheels = {number for number, event in requests if event.size and event.where.endswith(".whl")}
            always = wheels if fault is Fault.CORRUPT else set()  # whatever their place among the requests
            yield from ((fault, number) for number in sorted({*fit[::every], *always}))
        yield from ((Fault.FULL, limit) for limit in LIMITS)

    def tried(self, fault: Fault, at: int) -> Point:
        """Let one thing go wrong, run again, and compare."""
        shutil.rmtree(self.folder / "journals", ignore_errors=True)
        for site in self.sites:
            site.restore()
        self.readers = self._readers(self.new)
        limit = at if fault is Fault.FULL else 0
        first = self._ran(replace(self.job, limit=limit), None if limit else fault, at)
        event = self.between.events[-1 if limit else at - 1]
        self._look_everywhere()
        again = self._ran(self.job)
        self._look_everywhere()
        wrong, litter = self._differences()
        mended = "the same run" if first.status == 0 else "the run after it"
        if wrong and fault is Fault.CORRUPT:
            mended = "index repair"
            self._repair()
            for reader in self.readers:
                reader.seen = reader.site.state()
            wrong, litter = self._differences()
        seen = [complaint for reader in self.readers for complaint in reader.complaints]
        wrong += [] if fault is Fault.CORRUPT else seen  # nobody can keep a reader from seeing what lies there wrong
        wrong += [f"the second run ended with {again}"] if again.status and mended != "index repair" else []
        wrong += [f"{name} is left in the journal" for name in self._unfinished()]
        wrong += [f"{path.name} is left over" for path in (self.folder / "index" / OWN / "unfinished").glob("*")]
        return Point(
            fault.value,
            event.what,
            event.where,
            event.step,
            first.status,
            first.said,
            again.status,
            mended,
            tuple(litter),
            len(seen),
            tuple(wrong),
        )

    def _look_everywhere(self) -> None:
        """Look at what has changed and was not told of: nothing of a bucket, all of whose requests pass the proxy."""
        for reader in self.readers:
            there = reader.site.keys()
            for key in {*reader.seen, *there} if isinstance(reader.site, FolderSite) else reader.seen.keys() ^ there:
                reader.look(key)

    def _differences(self) -> tuple[list[str], list[str]]:
        """Return what is not as an undisturbed run leaves it, and the files that are there besides."""
        wrong, litter = [], []
        for reader in self.readers:
            site, state = reader.site, reader.seen
            new = self.new[site.address]
            litter += [f"{site.address}/{key}" for key in sorted(state.keys() - new.keys())]
            wrong += [f"{site.address}/{key} is lost" for key in sorted(new.keys() - state.keys())]
            same = sorted(new.keys() & state.keys())
            wrong += [
                f"{site.address}/{key} differs"
                for key in same
                if strip_changing(state[key]) != strip_changing(new[key])
            ]
        if litter:
            unlisted = {f"{site.address}/{flaw}" for site in self.sites for flaw in self._verified(site, look.UNLISTED)}
            wrong += [f"{key} is there besides" for key in litter if key not in unlisted]
        return wrong, litter

    def _index(self, site: Site) -> WheelIndex:
        return index_of(self.bucket.target(PREFIX) if isinstance(site, BucketSite) else site.address, _outside())

    def _verified(self, site: Site, what: str = "") -> list[str]:
        flaws = maintain.verify(self._index(site), _outside())
        return [flaw.key for flaw in flaws if what in {"", flaw.what}]

    def _repair(self) -> None:
        for site in self.sites:
            maintain.repair(self._index(site), _outside())
            if isinstance(site, BucketSite):  # what this process wrote did not pass the proxy
                site.touched |= set(self.new[site.address])

    def _unfinished(self) -> list[str]:
        journals = [json.loads(path.read_text()) for path in (self.folder / "journals").glob("*.json")]
        return [name for one in journals for name in set(one["targets"]) - set(one["switched"])]


def _outside() -> Outside:
    return Outside(environ=os.environ, cache=Path(os.devnull), reporter=Silent())


def chain(part: int, parts: int, answers: IO[str]) -> None:
    """Try one of several parts of all points, and write each down as a line of JSON."""
    os.environ.update(CREDENTIALS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fatwheel-")))
        bucket = stack.enter_context(moto())
        world = World(folder, bucket, stack.enter_context(proxy(bucket.port)), stack.enter_context(publishers()))
        assert not world.complaints, world.complaints
        for fault, at in list(world.points())[part::parts]:
            print(json.dumps(world.tried(fault, at)), file=answers, flush=True)


def table(parts: Sequence[int] = range(CHAINS), of: int = CHAINS) -> list[Point]:
    """Try every point, or some of several parts of them, each part in a process; return what became of each point."""
    root = str(Path(__file__).parents[2])
    commands = [[sys.executable, "-m", "tests.builders.transactions", str(part), str(of)] for part in parts]
    chains = [subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) for command in commands]
    outputs = [process.communicate()[0] for process in chains]
    assert [process.returncode for process in chains] == [0] * len(chains)
    return [Point(*json.loads(line)) for output in outputs for line in output.splitlines()]


def phase(point: Point) -> str:
    """Return the part of the transaction that a point lies in."""
    kind = "bucket" if "s3:" in point.step else "folder"
    return f"{point.step.split(' ')[0]} {kind}" if point.step else "check"


def summary(points: Sequence[Point]) -> str:
    """Return a table of how many points there were of each fault, in each phase, and whether all went well."""
    lines = [f"| fault | {' | '.join(PHASES)} | in all | mended by | well |", "|---" * (len(PHASES) + 4) + "|"]
    for fault in dict.fromkeys(point.fault for point in points):
        those = [point for point in points if point.fault == fault]
        counts = Counter(map(phase, those))
        mended = ", ".join(f"{what} {count}" for what, count in Counter(point.mended for point in those).items())
        well = sum(not point.complaints for point in those)
        cells = " | ".join(str(counts[name] or "") for name in PHASES)
        lines.append(f"| {fault} | {cells} | {len(those)} | {mended} | {well} |")
    well = sum(not point.complaints for point in points)
    total = Counter(map(phase, points))
    lines.append(f"| **all** | {' | '.join(str(total[name]) for name in PHASES)} | {len(points)} | | {well} |")
    litter = Counter(key.rpartition("/")[2] for point in points for key in point.litter)
    glimpsed = sum(point.glimpsed > 0 for point in points)
    lines += ["", f"files left that no page lists: {dict(litter) or 'none'}"]
    lines.append(
        f"points at which a reader saw a byte that the server had stored wrong, until the next request: {glimpsed}"
    )
    return "\n".join(lines)


if __name__ == "__main__":
    chain(int(sys.argv[1]), int(sys.argv[2]), sys.stdout)
