"""Publishers in processes of their own: forked from one that has loaded everything, so that each starts at once.

`python -m tests.builders.publishers` reads lines of JSON, each a list of jobs to do at the same time, and answers with
a line of how each ended. Not all of this can be told from outside a process, so it tells of each file that it is about
to move or remove, where it is asked to.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import quote

from ci_tools import catalog
from ci_tools.errors import FatwheelError
from ci_tools.index.objects.bucket import BucketStore
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish import transaction
from ci_tools.publish.targets import Target
from ci_tools.publish.targets.addresses import targets_of
from tests.builders import releases
from tests.servers.buckets import CREDENTIALS

MOVES = frozenset({"os.rename", "os.remove"})  # what Python says before it does them (its audit events)


@dataclass(frozen=True)
class Job:
    """One release to publish: its files, where they go, and who is told of each step."""

    project: str
    version: str
    files: tuple[tuple[str, str], ...]  # the path of each, and the index folder it lies in
    to: tuple[str, ...]
    journals: str
    tell: int = 0  # the port that hears of each step; 0: none
    limit: int = 0  # bytes that no file may exceed; 0: none


class Ended(NamedTuple):
    """How a publisher ended: its exit status, minus the signal where it was killed, and what it said."""

    status: int
    said: str


class Publishers:
    """A process that publishes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def publish(self, *jobs: Job) -> list[Ended]:
        """Do jobs at the same time, each in a process of its own."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([asdict(job) for job in jobs]) + "\n")
        self.process.stdin.flush()
        return [Ended(*ended) for ended in json.loads(self.process.stdout.readline())]


@contextmanager
def publishers(**environ: str) -> Iterator[Publishers]:
    """Start the process that publishers are forked from."""
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-m", "tests.builders.publishers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, **CREDENTIALS, "no_proxy": "127.0.0.1", **environ},
    ) as process:
        try:
            yield Publishers(process)
        finally:
            process.kill()


# ---------------------------------------------------------------- in that process


class Told(Silent):
    """A reporter that tells a port of each step."""

    def __init__(self, port: int) -> None:
        self.port = port

    @contextmanager
    def step(self, title: str) -> Iterator[Silent]:
        """Tell that a step begins."""
        tell(self.port, "step", title)
        yield self


def tell(port: int, what: str, detail: str) -> None:
    """Tell a port what comes next, and wait until it has heard."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", f"/-/{what}/{quote(detail, safe='')}", headers={"X-Process": str(os.getpid())})
    connection.getresponse().read()
    connection.close()


def serve(lines: Iterator[str], answers: IO[str]) -> None:
    """Do what each line asks."""
    targets: dict[tuple[str, ...], tuple[Target, ...]] = {}
    outside = Outside(environ=os.environ, cache=Path(os.devnull), reporter=Silent())
    catalog.load()
    for line in lines:
        jobs = [Job(**entry) for entry in json.loads(line)]
        for job in jobs:
            if tuple(job.to) not in targets:
                targets[tuple(job.to)] = targets_of(job.to, outside)
                _warm(targets[tuple(job.to)])
        ended = [_finished(*child) for child in [_started(job, targets[tuple(job.to)]) for job in jobs]]
        print(json.dumps(ended), file=answers, flush=True)


def _warm(targets: Sequence[Target]) -> None:
    """Let a bucket's client load what it needs for its first request, without making one."""
    for target in targets:
        if isinstance(target, WheelIndex) and isinstance(target.store, BucketStore):
            target.store.client.generate_presigned_url("put_object", {"Bucket": "any", "Key": "any"})


def _started(job: Job, targets: Sequence[Target]) -> tuple[int, int]:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _published(job, targets, write)
        except BaseException:
            os.write(write, traceback.format_exc().encode())  # what is no error of ours is a defect
            raise
        finally:
            os._exit(status)
    os.close(write)
    return child, read


def _finished(child: int, read: int) -> Ended:
    with os.fdopen(read, encoding="utf-8") as said:
        text = said.read()
    return Ended(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text)


def _published(job: Job, targets: Sequence[Target], write: int) -> int:
    """Publish in a process of its own; return its exit status, as the command line gives it."""
    items = [releases.item(Path(path), folder) for path, folder in job.files]
    unit = releases.unit(job.project, *items, version=job.version)
    if job.limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job.limit, job.limit))
    if job.tell:
        tell(job.tell, "start", unit.project)
        sys.addaudithook(partial(_tell_of_move, job.tell))
    try:
        transaction.publish(unit, targets, Path(job.journals), Told(job.tell) if job.tell else Silent())
    except FatwheelError as error:
        os.write(write, str(error).encode())
        return error.status
    except OSError as error:
        os.write(write, f"{error.strerror} ({error.filename})".encode())
        return 3
    return 0


def _tell_of_move(port: int, event: str, args: tuple[object, ...]) -> None:
    if event in MOVES:
        tell(port, event, str(args[1] if event == "os.rename" else args[0]))


if __name__ == "__main__":
    serve(iter(sys.stdin.readline, ""), sys.stdout)
