"""Buckets of a server that knows no conditional writes: publishers wait for each other by a lock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.index import maintain
from ci_tools.index.objects.bucket import BucketStore
from ci_tools.index.objects.lease import Terms
from ci_tools.index.objects.place import place_of
from ci_tools.index.objects.store import content_of_bytes
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.addresses import index_of
from tests.builders.publishers import Job, publishers
from tests.builders.releases import Words, item, publish, unit
from tests.builders.wheels import make
from tests.servers import buckets
from tests.servers.buckets import Bucket
from tests.servers.faults import proxy

pytestmark = pytest.mark.slow

QUICK = Terms(lease=4, limit=30, every=0.5)
HOLDER = """
import sys, time
from ci_tools.machine.context import Silent
from ci_tools.index.objects.bucket import BucketStore
from ci_tools.index.objects.place import place_of
from ci_tools.index.objects.lease import Terms
with BucketStore(place_of(sys.argv[1]), Silent(), Terms(lease=4)).alone():
    print("held", flush=True)
    time.sleep(60)
"""
COUNTING = """
import sys
from ci_tools.machine.context import Silent
from ci_tools.index.objects.bucket import BucketStore
from ci_tools.index.objects.place import place_of
from ci_tools.index.objects.lease import Terms
store = BucketStore(place_of(sys.argv[1]), Silent(), Terms(lease=4))
where = {"Bucket": store.place.bucket, "Key": store.key_of("count")}
for _ in range(10):
    with store.alone():
        read = store.read("count")
        number = int(read[0]) + 1 if read else 1
        store.client.put_object(Body=str(number).encode(), **where)
"""


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    try:
        with buckets.s3rver() as served:
            yield served
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def credentials(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**bucket.environ, **buckets.NO_PROXY}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def target(bucket: Bucket, tmp_path: Path) -> str:
    return bucket.target(tmp_path.name)


def store(target: str, words: Silent | None = None, terms: Terms = QUICK) -> BucketStore:
    return BucketStore(place_of(target), words or Silent(), terms)


def outside(tmp_path: Path, words: Silent) -> Outside:
    return Outside(environ=os.environ, cache=tmp_path / "cache", reporter=words)


@contextmanager
def holding(target: str) -> Iterator[subprocess.Popen[str]]:
    """Hold the lock in a process of its own."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, target], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def claims(bucket: Bucket, tmp_path: Path) -> list[str]:
    return buckets.keys(bucket.client(), f"{tmp_path.name}/.fatwheel/lock/")


def test_an_index_is_published_and_the_slower_way_is_said(target: str, bucket: Bucket, tmp_path: Path) -> None:
    words = Words()
    index = index_of(target, outside(tmp_path, words))
    publish(index, unit("demo", item(make(tmp_path, "demo-1.0-py3-none-any.whl"))))
    assert [line.partition(": ")[2] for line in words.lines] == [
        "this server ignores If-None-Match or If-Match; its publishers wait for each other by a lock, which is slower"
    ]
    assert list(maintain.verify(index, outside(tmp_path, words))) == []
    assert claims(bucket, tmp_path) == ["about"]


def test_four_publishers_at_once_lose_nothing(target: str, bucket: Bucket, tmp_path: Path) -> None:
    jobs = []
    for number in range(4):
        wheel = make(tmp_path / "made", f"demo-1.0+cu{120 + number}-py3-none-any.whl")
        files = ((str(wheel), f"cu{120 + number}"),)
        jobs.append(Job("demo", "1.0", files, (target,), str(tmp_path / f"journals-{number}")))
    with publishers(**bucket.environ) as workers:
        ended = workers.publish(*jobs)
    assert (len(ended), [one.said for one in ended if one.status]) == (4, [])
    for number in range(4):
        with urllib.request.urlopen(bucket.url(f"{tmp_path.name}/cu{120 + number}/demo/index.json")) as answer:
            assert [file["filename"][9:14] for file in json.load(answer)["files"]] == [f"cu{120 + number}"]
    assert list(maintain.verify(index_of(target, outside(tmp_path, Silent())), outside(tmp_path, Silent()))) == []


def test_a_killed_holder_s_lock_expires_and_who_has_it_is_said(target: str, tmp_path: Path) -> None:
    words, began = Words(), time.monotonic()
    with holding(target) as holder:
        holder.send_signal(signal.SIGKILL)
        with store(target, words).alone():
            assert time.monotonic() - began > 2
    said = f"/{tmp_path.name} is held by process {holder.pid} on "
    assert [line for line in words.lines if said in line and "s or more; waiting for" in line]


@pytest.mark.long
def test_a_lock_that_is_held_too_long_is_waited_for_no_longer_than_that(target: str) -> None:
    with (
        holding(target) as holder,
        pytest.raises(MachineError, match=rf"is held by process {holder.pid} .* it was waited for 2 s"),
        store(target, terms=Terms(lease=4, limit=2, every=0.5)).alone(),
    ):
        pass


@pytest.mark.long
def test_a_holder_outlives_its_lease_for_as_long_as_it_lives(target: str) -> None:
    mine = store(target)
    with mine.alone():
        time.sleep(QUICK.lease * 1.5)
        assert mine.put("page", content_of_bytes(b"page"), instead_of=None)


@pytest.mark.long
def test_a_holder_that_cannot_renew_its_lease_stops_before_its_next_write(target: str, bucket: Bucket) -> None:
    with proxy(bucket.port) as between:
        mine = store(target.replace(str(bucket.port), str(between.server_port)), terms=Terms(lease=2))
        with mine.alone():
            between.hook = lambda event: time.sleep(2) if "/lock/" in event.where else None
            time.sleep(2.5)
            with pytest.raises(MachineError, match="could not be renewed in time"):
                mine.put("page", content_of_bytes(b"page"), instead_of=None)
    assert store(target).find("page") is None


def test_of_two_writers_only_one_changes_what_both_have_read(target: str) -> None:
    stores = [store(target), store(target)]
    assert stores[0].put("page", content_of_bytes(b"old"), instead_of=None)
    found, done = stores[0].find("page"), []

    def write(mine: BucketStore, text: bytes) -> None:
        done.append(mine.put("page", content_of_bytes(text), instead_of=found))

    threads = [threading.Thread(target=write, args=pair) for pair in zip(stores, (b"first", b"second"), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == [False, True]


@pytest.mark.long
def test_no_two_of_six_processes_are_ever_under_the_lock_at_once(target: str, bucket: Bucket, tmp_path: Path) -> None:
    command = [sys.executable, "-c", COUNTING, target]
    for process in [subprocess.Popen(command) for _ in range(6)]:
        assert process.wait() == 0
    assert store(target).read("count")[0] == b"60"
    assert claims(bucket, tmp_path) == ["about"]
