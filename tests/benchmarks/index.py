"""An index of 100,000 wheels written whole, and one wheel published into it, beside dumb-pypi and s3pypi.

What is written whole is every page from what the index keeps for itself: no wheel is read, by us or by them.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import boto3

from ci_tools.index import IndexedFile
from ci_tools.manifest import Manifest
from ci_tools.outside import Silent
from ci_tools.targets.bucket import BucketStore, Place
from ci_tools.targets.ledger import Ledger
from ci_tools.targets.store import FolderStore
from ci_tools.targets.wheelindex import WheelIndex
from tests import releases
from tests.wheels import make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROJECTS, VERSIONS = 1_000, 100
FEW = 10  # projects of a small index
PEERS = ("dumb-pypi==1.15.0", "s3pypi==2.0.1", "moto[server]>=5.1")
REPEATED = 5


def measure() -> Iterator[tuple[str, float, str, float]]:
    """Yield (what, figure, unit, limit); a unit of `x` is so many times the work it is compared with."""
    with tempfile.TemporaryDirectory(prefix="fatwheel-index-") as folder:
        peers = _peers(Path(folder))
        yield from _whole(Path(folder), peers)
        yield from _bucket(Path(folder), peers)


def _peers(folder: Path) -> Path:
    """Install the peers into an environment of their own, and return its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", folder / "peers"], check=True)
    programs = folder / "peers" / "bin"
    subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", *PEERS], check=True)
    return programs


# ---------------------------------------------------------------- a folder


def _whole(folder: Path, peers: Path) -> Iterator[tuple[str, float, str, float]]:
    large, small = _filled(folder / "large", PROJECTS), _filled(folder / "small", FEW)
    ledger = Ledger(large.store, "")
    manifests = [ledger.manifest(_project(number)) for number in range(PROJECTS)]
    ours = _seconds(lambda: large.show(ledger, manifests))
    names = folder / "list.json"
    names.write_text("".join(_listed(file) for one in manifests for file in one.files.values()))
    command = [peers / "dumb-pypi", "--package-list-json", names, "--output-dir", folder / "dumb"]
    options = ["--packages-url", "../../pool", "--no-per-release-json"]
    theirs = _seconds(lambda: subprocess.run([*command, *options], check=True))
    yield f"every page of {PROJECTS * VERSIONS:,} wheels", ours, "s", 120
    yield "the same, over dumb-pypi (two pages of each project to its one)", ours / theirs, "x", 1
    small.show(Ledger(small.store, ""), [Ledger(small.store, "").manifest(_project(number)) for number in range(FEW)])
    one = [_one_more(folder, index, run) for run in range(REPEATED) for index in (large, small)]
    yield (
        f"one wheel more among {PROJECTS * VERSIONS:,}, over one among {FEW * VERSIONS:,}",
        sum(one[::2]) / sum(one[1::2]),
        "x",
        2,
    )
    with names.open("a") as file:
        file.write(_listed(_file(_project(0), VERSIONS)))
    before = folder / "before.json"
    before.write_text("".join(names.read_text().splitlines(keepends=True)[:-1]))
    again = _seconds(lambda: subprocess.run([*command, *options, "--previous-package-list-json", before], check=True))
    yield "one wheel more, over dumb-pypi's rebuild of what changed", min(one[::2]) / again, "x", 0.5


def _filled(root: Path, projects: int) -> WheelIndex:
    """Return an index that keeps so many projects, of which no page is written yet."""
    index = WheelIndex(FolderStore(root, Silent()), order=0)
    ledger = Ledger(index.store, "")
    for number in range(projects):
        files = [_file(_project(number), version) for version in range(VERSIONS)]
        found = Manifest(_project(number), files={file.name: file for file in files})
        ledger.change_manifest(_project(number), lambda _, found=found: found)
    return index


def _project(number: int) -> str:
    return f"project{number:04}"


def _file(project: str, version: int) -> IndexedFile:
    name = f"{project}-{version}.0-py3-none-any.whl"
    sha256 = hashlib.sha256(name.encode()).hexdigest()
    return IndexedFile(name, "", sha256, 10**6, "2026-01-01T00:00:00Z", ">=3.10", sha256)


def _listed(file: IndexedFile) -> str:
    """Return a file as dumb-pypi is told of it."""
    entry = {"filename": file.name, "hash": f"sha256={file.sha256}", "requires_python": file.requires_python}
    return json.dumps({**entry, "core_metadata": f"sha256={file.metadata_sha256}"}) + "\n"


def _one_more(folder: Path, index: WheelIndex, run: int) -> float:
    wheel = make(folder / "one", f"{_project(0)}-{VERSIONS + run}.0-py3-none-any.whl")
    release = releases.unit(_project(0), releases.item(wheel), version=f"{VERSIONS + run}.0")
    return _seconds(lambda: releases.publish(index, release))


# ---------------------------------------------------------------- a bucket


def _bucket(folder: Path, peers: Path) -> Iterator[tuple[str, float, str, float]]:
    """Compare one wheel more in a bucket with s3pypi's upload of it, each into a project of 100 files."""
    with _server(peers) as endpoint:
        client = boto3.client("s3", endpoint_url=endpoint)
        client.create_bucket(Bucket="wheels")
        index = WheelIndex(BucketStore(Place("wheels", "whl", endpoint=endpoint), Silent()), order=1)
        ledger = Ledger(index.store, "")
        files = [_file(_project(0), version) for version in range(VERSIONS)]
        found = Manifest(_project(0), files={file.name: file for file in files})
        ledger.change_manifest(_project(0), lambda _: found)
        for file in files:
            client.put_object(Bucket="wheels", Key=f"theirs/{_project(0)}/{file.name}", Body=b"wheel")
        ours = [_one_more(folder, index, run) for run in range(REPEATED)]
        theirs = [_theirs(folder, peers, endpoint, run) for run in range(REPEATED)]
    yield "one wheel more in a bucket (stage, read back, switch), over s3pypi's upload", min(ours) / min(theirs), "x", 1


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


def _theirs(folder: Path, peers: Path, endpoint: str, run: int) -> float:
    wheel = make(folder / "theirs", f"{_project(0)}-{VERSIONS + run}.0-py3-none-any.whl")
    command = [peers / "s3pypi", "upload", wheel, "--bucket", "wheels", "--prefix", "theirs"]
    started = _seconds(lambda: subprocess.run([peers / "s3pypi", "--version"], check=True, stdout=subprocess.DEVNULL))
    environ = {**os.environ, "AWS_ENDPOINT_URL": endpoint}  # of its lock, which is a table of another service, too
    whole = _seconds(lambda: subprocess.run(command, check=True, env=environ))
    return whole - started  # ours is measured without the start of Python too


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
