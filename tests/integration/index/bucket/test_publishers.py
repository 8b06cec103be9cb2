"""The index in a bucket under many publishers at once, and on a server that checks every hash."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_tools.errors import MachineError
from ci_tools.index import maintain
from ci_tools.index.ledger import Ledger
from ci_tools.index.maintain import look
from ci_tools.index.objects.store import content_of_bytes
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.addresses import index_of
from tests.builders import releases
from tests.builders.bucket_parts import CUDA, PURE, Here, publish
from tests.builders.publishers import Job, Publishers, publishers
from tests.builders.releases import item, unit
from tests.builders.wheels import edited, hexdigest, make
from tests.servers import buckets
from tests.servers.buckets import Bucket
from tests.servers.faults import Event, proxy

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workers() -> Iterator[Publishers]:
    with publishers() as started:
        yield started


def job(project: str, files: list[tuple[Path, str]], to: str, tmp_path: Path, number: int) -> Job:
    named = tuple((str(path), folder) for path, folder in files)
    return Job(project, "1.0", named, (to,), str(tmp_path / f"journals-{number}"))


def many(count: int, tmp_path: Path, target: str) -> list[Job]:
    """Return publishers of one project, with a wheel each, two for each accelerator."""
    jobs = []
    for number in range(count):
        label = f"cu{120 + number // 2}"
        wheel = make(tmp_path / "made", f"demo-1.0+{label}-cp3{number % 2 + 10}-none-any.whl")
        jobs.append(job("demo", [(wheel, label)], target, tmp_path, number))
    return jobs


COUNTS = [6, pytest.param(16, marks=pytest.mark.long)]


@pytest.mark.parametrize("count", COUNTS)
def test_many_publishers_of_one_project_lose_nothing(
    count: int, workers: Publishers, here: Here, tmp_path: Path
) -> None:
    ended = workers.publish(*many(count, tmp_path, here.target()))
    assert [one.status for one in ended] == [0] * count, ended
    document = json.loads(here.text("demo/index.json"))
    names = sorted(path.name for path in (tmp_path / "made").iterdir())
    assert document["files"] == []  # none is of every accelerator
    listed = [
        file["filename"]
        for label in {f"cu{120 + number // 2}" for number in range(count)}
        for file in json.loads(here.text(f"{label}/demo/index.json"))["files"]
    ]
    assert sorted(listed) == names
    assert here.flaws() == []


@pytest.mark.long
def test_sixteen_publishers_of_sixteen_projects_lose_nothing(workers: Publishers, here: Here, tmp_path: Path) -> None:
    jobs = []
    for number in range(16):
        name = f"demo{number}"
        wheels = [(make(tmp_path / "made", f"{name}-1.0-py3-none-any.whl"), f"cu{120 + number % 4}")]
        jobs.append(job(name, wheels, here.target(), tmp_path, number))
    ended = workers.publish(*jobs)
    assert [one.status for one in ended] == [0] * 16, ended
    for folder in ("cpu", "cu120", "cu123"):
        names = {entry["name"] for entry in json.loads(here.text(f"{folder}/index.json"))["projects"]}
        assert names == {f"demo{number}" for number in range(16)}
    assert here.flaws() == []


@pytest.mark.parametrize("count", COUNTS)
def test_of_many_publishers_with_other_bytes_under_one_name_one_set_wins(
    count: int, workers: Publishers, here: Here, tmp_path: Path
) -> None:
    jobs, sets = [], []
    for number in range(count):
        folder = tmp_path / f"made-{number}"
        own = make(folder, f"demo-1.0+cu{120 + number}-py3-none-any.whl")
        shared = edited(make(folder, PURE), {"demo/who.py": f"{number % 3}".encode()})
        sets.append((own.name, hexdigest(shared)))
        jobs.append(job("demo", [(shared, ""), (own, f"cu{120 + number}")], here.target(), tmp_path, number))
    ended = workers.publish(*jobs)
    manifest = Ledger(here.index().store, "").manifest("demo")
    winner = manifest.files[PURE].sha256
    won = [number for number in range(count) if sets[number][1] == winner]
    assert [number for number in range(count) if ended[number].status == 0] == won, ended
    assert {ended[number].status for number in range(count) if number not in won} == {2}
    assert all("already with other bytes" in ended[number].said for number in range(count) if number not in won)
    assert set(manifest.files) == {PURE, *(sets[number][0] for number in won)}
    assert {what for _, what in here.flaws()} <= {look.UNLISTED}


def test_a_folder_that_appears_while_a_new_project_is_published_has_its_page_too(here: Here, tmp_path: Path) -> None:
    def meanwhile(event: Event) -> None:
        if event.where.endswith("/first/index.json") and not others:
            others.append("second")
            wheel = item(make(tmp_path, "second-1.0-py3-none-any.whl"), "cu130")
            releases.publish(here.index(), unit("second", wheel))

    others: list[str] = []
    with proxy(here.bucket.port) as between:
        between.hook = meanwhile
        target = index_of(here.target(between.server_port), here.outside)
        releases.publish(target, unit("first", item(make(tmp_path, "first-1.0-py3-none-any.whl"))))
        assert others == ["second"]
    assert here.flaws() == []


def test_a_slow_publisher_undoes_nothing_where_the_page_is_what_it_was_when_it_looked(
    here: Here, tmp_path: Path
) -> None:
    def meanwhile(event: Event) -> None:
        if event.what == "PUT" and event.where.endswith("/cpu/demo/") and not others:
            others.extend(maintain.yank(here.index(), "demo==1.0", None))  # the very bytes of before, so the same tag

    others: list[str] = []
    publish(here.index(), (make(tmp_path, PURE), ""), (make(tmp_path, CUDA), "cu130"))
    with proxy(here.bucket.port) as between:
        between.hook = meanwhile
        maintain.yank(index_of(here.target(between.server_port), here.outside), "demo==1.0", "broken")
        assert sorted(others) == sorted([CUDA, PURE])
    assert here.flaws() == []


# ---------------------------------------------------------------- a server that checks


@pytest.fixture(scope="module")
def strict() -> Iterator[Bucket]:
    """A bucket of a server that checks every hash it is told."""
    try:
        with buckets.localstack() as served:
            yield served
    except LookupError as error:
        pytest.skip(str(error))


@pytest.mark.long
def test_a_server_that_checks_hashes_is_published_to_and_refuses_wrong_ones(strict: Bucket, tmp_path: Path) -> None:
    here = Here(strict, "whl", Outside(environ=os.environ, cache=tmp_path, reporter=Silent()), tmp_path)
    index = here.index()
    publish(index, (make(tmp_path, PURE), ""), (make(tmp_path, CUDA), "cu130"))
    assert here.flaws() == []
    store = index.store
    content = content_of_bytes(b"some")._replace(data=b"same")
    with pytest.raises(MachineError, match=r"BadDigest|checksum"):
        store.put("wrong", content, instead_of=None)
    assert store.find("wrong") is None


@pytest.mark.long
def test_sixteen_publishers_at_once_to_a_server_that_checks(
    strict: Bucket, workers: Publishers, tmp_path: Path
) -> None:
    here = Here(strict, "many", Outside(environ=os.environ, cache=tmp_path, reporter=Silent()), tmp_path)
    ended = workers.publish(*many(16, tmp_path, strict.target("many")))
    assert [one.status for one in ended] == [0] * 16, ended
    assert here.flaws() == []
