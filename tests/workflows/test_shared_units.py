"""wheels.yml takes compile units of earlier runs: from GitHub's cache, which no release reads, or from a bucket."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.servers import buckets
from tests.workflows import harness
from tests.workflows.harness import Event, Run, World
from tests.workflows.projects import NATIVE, Job, call, held, ran
from tests.workflows.repositories import Repository

pytestmark = pytest.mark.long

JOB = f"linux-cpu-cp{sys.version_info.major}{sys.version_info.minor}"  # an image has each Python, and this machine one
FILES = {name: text.replace('["3.12"]', f'["3.{sys.version_info.minor}"]') for name, text in NATIVE.items()}
BUILD = f"Build {JOB}"
TAKEN = "1 compile units: 1 from the store"
ENTRY = re.compile(rf"fatwheel-units-fatwheel.yml-{JOB}-[0-9a-f]{{40}}")


def run_with(home: Path, ours: Repository, job: Job, event: Event, caches: Path | None = None, **more: str) -> Run:
    """Run a call on runners whose own cache is empty, with what an earlier run left in GitHub's.

    `config` is added to the project's.
    """
    if caches:
        shutil.copytree(caches, home / "run/shared/caches")
    environ = {"XDG_CACHE_HOME": str(home / "xdg")}
    world = World(environ=environ, secrets={name: more.pop(name) for name in [*more] if name.isupper()})
    files = {**FILES, "fatwheel.yml": f"{FILES['fatwheel.yml']}{more.pop('config', '')}"}
    run = ran(home, ours, job, event=event, files=files, world=world, **more)
    assert run.succeeded, run.log
    return run


def list_caches(run: Run) -> list[str]:
    return [path.name for path in (run.shared / "caches").iterdir() if ENTRY.fullmatch(path.name)]


WHEELS = call("wheels", config="fatwheel.yml")


def test_a_branch_leaves_units_for_pull_requests_which_leave_nothing(ours: Repository, tmp_path: Path) -> None:
    first = run_with(tmp_path / "1", ours, WHEELS, Event.push())
    assert len(list_caches(first)) == 1, first.log
    assert TAKEN not in first.job(BUILD).log
    proposed = run_with(tmp_path / "2", ours, WHEELS, Event.pull_request(), first.shared / "caches")
    assert TAKEN in proposed.job(BUILD).log, proposed.job(BUILD).log
    assert list_caches(proposed) == list_caches(first)


@pytest.mark.parametrize(
    ("job", "event", "tag"),
    [
        pytest.param(WHEELS, Event.push("refs/tags/v1.0"), "v1.0", id="a-release"),
        pytest.param(WHEELS, Event.dispatch(), "v1.0", id="a-release-by-hand"),
        pytest.param(call("wheels", config="fatwheel.yml", nightly=True), Event.dispatch(), "", id="a-nightly"),
        pytest.param(call("wheels", config="fatwheel.yml", units="none"), Event.push(), "", id="none"),
    ],
)
def test_no_release_reads_the_cache(job: Job, event: Event, tag: str, ours: Repository, tmp_path: Path) -> None:
    harness.plant(tmp_path / "run", tmp_path / "mark")
    run = run_with(tmp_path, ours, job, event, tag=tag)
    assert not (tmp_path / "mark").exists()
    assert list_caches(run) == []


def test_a_release_takes_units_from_a_bucket_that_no_job_with_the_project_s_code_reaches(
    ours: Repository, tmp_path: Path
) -> None:
    with buckets.moto() as bucket:
        keys = {"units-key-id": "${{ secrets.KEY }}", "units-secret-key": "${{ secrets.SECRET }}"}
        keys_of = {"KEY": bucket.key, "SECRET": bucket.secret}
        text = json.loads(call("wheels", config="fatwheel.yml", units=bucket.target("units")).text)
        job = Job("wheels", json.dumps({**text, "secrets": keys}))
        first = run_with(tmp_path / "1", ours, job, Event.push(), **keys_of)
        assert (held(first, "fatwheel-shared-units"), list_caches(first)) == (set(), [])
        shards = {"tag": "v1.0", "config": "build: {shards: 2}\n"}
        second = run_with(tmp_path / "2", ours, job, Event.push("refs/tags/v1.0"), **shards, **keys_of)
        compiling = "".join(second.job(f"Compile {JOB} {number}/2").log for number in (1, 2))
        assert compiling.count("1 of them measured") == 2, compiling
        assert TAKEN in compiling
        assert TAKEN in second.job(BUILD).log, second.job(BUILD).log
        (kept,) = held(second, f"fatwheel-units-{JOB}")
        proposed = run_with(tmp_path / "3", ours, job, Event.pull_request(), **keys_of)
        assert held(proposed, f"fatwheel-units-{JOB}") == set()
        assert proposed.job("Upload compile units").result == "skipped"
    assert {kept} <= held(proposed, "fatwheel-shared-units")
