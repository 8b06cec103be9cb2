"""One wheel published into a bucket, beside s3pypi.

Both do it in a process that has begun and has imported everything, with a client of their own for each wheel: what is
measured is the work from the command's first line to its last, of which no start has to be taken off.

22 November 2026, two cores that others kept busy, `python -m tests.benchmarks bucket`: 1.55 s, 1.99 times s3pypi's
upload. It puts the wheel and one page; ours reads the wheel back, and writes a manifest, a note and seven pages on
conditions. The limit of 1 is not held: it seemed to be while a start-up was taken off s3pypi's time.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3

from ci_tools.index.ledger import Ledger
from ci_tools.index.manifest import Manifest
from ci_tools.index.objects.bucket import BucketStore
from ci_tools.index.objects.place import Place
from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Silent
from tests.benchmarks.index import REPEATED, VERSIONS, add_one, install_peers, make_entry, seconds
from tests.builders.wheels import make

PROJECT = "project0000"
PEERS = ("s3pypi==2.0.1", "moto[server]>=5.1")
UPLOAD = """
import sys, time
from s3pypi.__main__ import main
for wheel in sys.argv[1:]:
    started = time.perf_counter()
    main("upload", wheel, "--bucket", "wheels", "--prefix", "theirs")
    print(time.perf_counter() - started)
"""


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit): one wheel more in a project of 100 files, ours over s3pypi's upload of it."""
    with tempfile.TemporaryDirectory(prefix="fatwheel-bucket-") as name:
        folder = Path(name)
        peers = install_peers(folder, *PEERS)
        with _server(peers) as endpoint:
            _fill(endpoint)
            ours = [_publish(folder, endpoint, run) for run in range(REPEATED)]
            theirs = _upload(folder, peers, endpoint)
    yield "one wheel more in a bucket", min(ours), "s", 10
    yield "the same (stage, read back, switch), over s3pypi's upload", min(ours) / min(theirs), "x", 1


def _fill(endpoint: str) -> None:
    """Make a bucket with a project of ours and one of theirs."""
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket="wheels")
    files = [make_entry(PROJECT, version) for version in range(VERSIONS)]
    found = Manifest(PROJECT, files={file.name: file for file in files})
    Ledger(_index(endpoint).store, "").change_manifest(PROJECT, lambda _: found)
    for file in files:
        client.put_object(Bucket="wheels", Key=f"theirs/{PROJECT}/{file.name}", Body=b"wheel")


def _index(endpoint: str) -> WheelIndex:
    return WheelIndex(BucketStore(Place("wheels", "whl", endpoint=endpoint), Silent()), order=1)


@contextmanager
def _server(peers: Path) -> Iterator[str]:
    os.environ |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
    command = [peers / "moto_server", "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        said = next(line for line in process.stderr or () if "Running on" in line)
        try:
            yield said.partition("Running on ")[2].strip()
        finally:
            process.kill()


def _publish(folder: Path, endpoint: str, run: int) -> float:
    """Publish a wheel with a client of its own, and return how many seconds both took."""
    made: list[WheelIndex] = []
    return seconds(lambda: made.append(_index(endpoint))) + add_one(folder, made[0], run)


def _upload(folder: Path, peers: Path, endpoint: str) -> list[float]:
    """Let s3pypi upload wheels one by one, and return how many seconds each took."""
    wheels = [make(folder / "theirs", f"{PROJECT}-{VERSIONS + run}.0-py3-none-any.whl") for run in range(REPEATED)]
    environ = {**os.environ, "AWS_ENDPOINT_URL": endpoint}  # of its lock, which is a table of another service, too
    command = [peers / "python", "-c", UPLOAD, *wheels]
    return [float(line) for line in subprocess.check_output(command, env=environ, text=True).splitlines()]
