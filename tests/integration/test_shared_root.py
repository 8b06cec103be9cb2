"""A root that several tools write: ours, and an index script that lists the whole bucket again and again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.builders import index_script
from tests.builders.foreign_indexes import s3pypi_upload, upload_wheels
from tests.builders.forked import Forked, adopt, fill_bucket
from tests.builders.index_listing import Listed, listed, lost
from tests.builders.index_script import BucketPlace
from tests.builders.wheels import make
from tests.servers.bucket_site import website
from tests.servers.buckets import BUCKET, Bucket, keys

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bucket_variables")]

ROOT = Path(__file__).parents[2]
FOLDERS = ("cu129", "cu130")
KILLS = 30


@pytest.fixture
def whl(bucket: Bucket, tmp_path: Path) -> str:
    """A root like PyTorch's, with pages of its script; its prefix."""
    prefix = f"{tmp_path.name}/whl"
    upload_wheels(bucket, prefix, [make(tmp_path / "theirs", "filelock-3.0-py3-none-any.whl")])
    for folder in FOLDERS:
        wheels = [make(tmp_path / folder, f"{name}-2.10+{folder}-py3-none-any.whl") for name in ("torch", "triton")]
        upload_wheels(bucket, f"{prefix}/{folder}", wheels)
    script(bucket, prefix)
    return prefix


def script(bucket: Bucket, prefix: str) -> None:
    """Let the other tool write every page once."""
    index_script.update(BucketPlace(bucket.client(), BUCKET), prefix)


def ours(folder: Path, version: str, project: str = "demo") -> tuple[str, str, list[Path]]:
    """Return a release to publish: a pure wheel and one for each accelerator."""
    wheels = [make(folder / "ours", f"{project}-{version}-py3-none-any.whl")]
    wheels += [make(folder / "ours" / one, f"{project}-{version}+{one}-py3-none-any.whl") for one in FOLDERS]
    return project, version, wheels


def run(function: Callable[..., None], *arguments: object) -> float:
    """Publish or adopt to the end; return how many seconds that took."""
    begun = time.monotonic()
    function(*arguments, tell=lambda: None)
    return time.monotonic() - begun


@contextmanager
def forever(bucket: Bucket, prefix: str) -> Iterator[None]:
    """Let the other tool write in a process of its own, all the time."""
    program = [sys.executable, "-m", "tests.builders.index_script", "--endpoint", bucket.endpoint, "--bucket", BUCKET]
    with subprocess.Popen([*program, "--prefix", prefix, "--forever"], cwd=ROOT) as process:
        try:
            yield
        finally:
            process.kill()


def pages(bucket: Bucket, prefix: str) -> dict[str, bytes]:
    """Return every page of the root, and of each folder in it."""
    client, places = bucket.client(), ("", *(f"{folder}/" for folder in FOLDERS))
    found = {place: f"{prefix}/{place}index.html" for place in places}
    return {place: client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for place, key in found.items()}


LINE = b'    <a href="demo/">demo</a><br/>\n'


def test_a_line_joins_each_front_page_and_every_other_byte_stays(bucket: Bucket, whl: str, tmp_path: Path) -> None:
    with website(bucket) as site:
        before, fronts = listed(f"{site}/{whl}", *FOLDERS), pages(bucket, whl)
        run(fill_bucket, bucket.target(whl, root="shared"), *ours(tmp_path, "1.0"))
        after = pages(bucket, whl)
        assert {place: page.replace(LINE, b"") for place, page in after.items()} == fronts
        assert all(page.count(LINE) == 1 for page in after.values())
        found = listed(f"{site}/{whl}", *FOLDERS)
        assert lost(before, found) == []
        assert {page for page, name in found if name.startswith("demo")} == {"demo/", "cu129/demo/", "cu130/demo/"}
    assert not [key for key in keys(bucket.client(), whl) if key.endswith("index.json") and ".fatwheel" not in key]


def test_a_kept_root_has_no_line_of_ours(bucket: Bucket, whl: str, tmp_path: Path) -> None:
    fronts = pages(bucket, whl)
    run(fill_bucket, bucket.target(whl, root="kept"), *ours(tmp_path, "1.0"))
    run(fill_bucket, bucket.target(whl), *ours(tmp_path, "1.1"))
    assert pages(bucket, whl) == fronts
    with website(bucket) as site:
        found = listed(f"{site}/{whl}", *FOLDERS, projects=["demo"])
        assert len([name for page, name in found if page == "cu130/demo/"]) == 4


def test_our_page_is_written_by_the_other_tool_and_back(bucket: Bucket, whl: str, tmp_path: Path) -> None:
    target = bucket.target(whl, root="shared")
    with website(bucket) as site:
        run(fill_bucket, target, *ours(tmp_path, "1.0"))
        mine = listed(f"{site}/{whl}", *FOLDERS)
        script(bucket, whl)
        theirs = listed(f"{site}/{whl}", *FOLDERS)
        assert {key for key in mine if key not in theirs} == set()
        run(fill_bucket, target, *ours(tmp_path, "1.1"))
        after = listed(f"{site}/{whl}", *FOLDERS)
        assert lost(theirs, after) + lost(mine, after) == []
        script(bucket, whl)
        assert set(listed(f"{site}/{whl}", *FOLDERS)) >= set(after)


# ---------------------------------------------------------------- at once, and killed


class Reader(threading.Thread):
    """Reads an index all the time, and notes what was listed when one of our publishers began and is not any more."""

    def __init__(self, root: str, folders: tuple[str, ...]) -> None:
        super().__init__(daemon=True)
        self.root, self.folders = root, folders
        self.complaints: list[str] = []
        self.times = 0
        self.base: Listed = listed(root, *folders)
        self.is_over = threading.Event()

    def run(self) -> None:
        """Read until it is over."""
        while not self.is_over.is_set():
            try:
                found = listed(self.root, *self.folders)
            except Exception as error:  # noqa: BLE001 - a doubled link, half a page, no answer: all is to be told
                self.complaints.append(repr(error))
            else:
                self.complaints += [f"{page}{name}" for page, name in self.base if (page, name) not in found]
            self.times += 1


@contextmanager
def read_all_the_time(root: str, *folders: str) -> Iterator[Reader]:
    """Read an index while something else is done with it; nothing may be missing, doubled or halved."""
    reader = Reader(root, folders)
    reader.start()
    try:
        yield reader
    finally:
        reader.is_over.set()
        reader.join()
    assert reader.times > 0
    assert reader.complaints == []


def kill_at_random(chance: random.Random, seconds: float, function: Callable[..., None], *arguments: object) -> int:
    """Start a function in a process, kill that within so many seconds after it begins, and return its exit status."""
    process = Forked(function, *arguments, env=os.environ)
    process.begins()
    time.sleep(chance.uniform(0, seconds))
    process.kill()
    return process.end()[0]


@pytest.mark.parametrize("kills", [2, pytest.param(KILLS, marks=pytest.mark.long)])
def test_publishers_are_killed_beside_another_tool_and_nothing_is_lost(
    kills: int, bucket: Bucket, whl: str, tmp_path: Path
) -> None:
    target, chance = bucket.target(whl, root="shared"), random.Random(13)  # noqa: S311 - it decides no secret
    run(fill_bucket, target, *ours(tmp_path, "1.0", "other"))
    script(bucket, whl)
    statuses = []
    with website(bucket) as site:
        with read_all_the_time(f"{site}/{whl}", *FOLDERS), forever(bucket, whl):
            seconds = run(fill_bucket, target, *ours(tmp_path, "0.9"))
            for number in range(kills):
                publisher = (fill_bucket, target, *ours(tmp_path, f"1.{number}"))
                statuses.append(kill_at_random(chance, seconds, *publisher))
                run(*publisher)
        assert -signal.SIGKILL in statuses
        run(fill_bucket, target, *ours(tmp_path, "2.0"))
        script(bucket, whl)
        found = listed(f"{site}/{whl}", *FOLDERS)
    versions = [*(f"1.{number}" for number in range(kills)), "2.0"]
    wanted = {(f"{place}demo/", f"demo-{version}-py3-none-any.whl") for version in versions for place in ("", "cu130/")}
    assert wanted <= set(found)
    assert {page for page, _ in found} >= {"torch/", "cu130/torch/", "other/", "filelock/", "cu129/triton/"}


@pytest.mark.parametrize("kills", [2, pytest.param(KILLS, marks=pytest.mark.long)])
def test_adoptions_are_killed_beside_another_tool_and_nothing_is_lost(
    kills: int, bucket: Bucket, tmp_path: Path
) -> None:
    chance = random.Random(31)  # noqa: S311 - it decides no secret
    statuses, seconds = [], 0.0
    for number in range(kills + 1):
        prefix = f"{tmp_path.name}/{number}"
        target = bucket.target(prefix)
        wheels = [
            make(tmp_path, f"{name}-1.{part}-py3-none-any.whl") for name in ("demo", "other") for part in range(4)
        ]
        s3pypi_upload(bucket, prefix, wheels[: 4 + number % 4])
        with read_all_the_time(bucket.url(f"{prefix}/")):
            if number:
                statuses.append(kill_at_random(chance, seconds, adopt, target))
            if number % 3 == 1:
                s3pypi_upload(bucket, prefix, wheels[-1:])
            took = run(adopt, target)
            seconds = seconds or took  # of one that nothing was done of before
        found = {name for _, name in listed(bucket.url(f"{prefix}/"))}
        assert found >= {wheel.name for wheel in wheels[: 4 + number % 4]}
    assert -signal.SIGKILL in statuses


def test_two_publishers_and_the_other_tool_at_once(bucket: Bucket, whl: str, tmp_path: Path) -> None:
    target = bucket.target(whl, root="shared")
    with website(bucket) as site:
        with read_all_the_time(f"{site}/{whl}", *FOLDERS), forever(bucket, whl):
            for version in ("1.0", "1.1"):
                both = [ours(tmp_path, version, project) for project in ("demo", "other")]
                running = [Forked(fill_bucket, target, *one, env=os.environ) for one in both]
                assert [process.end() for process in running] == [(0, ""), (0, "")]
        for project in ("demo", "other"):
            run(fill_bucket, target, *ours(tmp_path, "1.2", project))
        script(bucket, whl)
        found = listed(f"{site}/{whl}", *FOLDERS)
    names = {f"{project}-1.{number}-py3-none-any.whl" for project in ("demo", "other") for number in range(3)}
    assert {name for page, name in found if page in {"cu130/demo/", "cu130/other/"}} >= names
