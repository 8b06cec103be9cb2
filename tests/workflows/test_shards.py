"""wheels.yml compiles a heavy wheel on several runners, and links it on one; other wheels get no further job."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.workflows import harness
from tests.workflows.harness import Event, Run
from tests.workflows.projects import NATIVE, call, held, ran, say, told
from tests.workflows.repositories import Repository

pytestmark = pytest.mark.long

WHEELS, TELL, JOB = call("wheels", config="fatwheel.yml"), say("tell", "wheels"), "linux-cpu-cp312"
PARTS = {f"csrc/part{number}.c": f"int part{number}(int x) {{ return x + {number}; }}\n" for number in range(4)}
SOURCES = ", ".join(f'"{name}"' for name in ("csrc/fast.c", *PARTS))


def files(config: str) -> dict[str, str]:
    """Return a project of five units, with this added to its config."""
    setup = NATIVE["setup.py"].replace('["csrc/fast.c"]', f"[{SOURCES}]")
    return {**NATIVE, **PARTS, "setup.py": setup, "fatwheel.yml": f"{NATIVE['fatwheel.yml']}{config}"}


@pytest.fixture(scope="module")
def sharded(ours: Repository, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return ran(tmp_path_factory.mktemp("sharded"), ours, WHEELS, TELL, files=files("build: {shards: 2}\n"))


def test_shards_compile_and_the_build_links(sharded: Run) -> None:
    assert sharded.succeeded, sharded.log
    names = ("Plan", f"Compile {JOB} 1/2", f"Compile {JOB} 2/2", f"Build {JOB}", "Gather")
    assert [sharded.results[name] for name in names] == ["success"] * len(names), sharded.log
    log = sharded.job(f"Build {JOB}").log
    assert f"{JOB}: 5 compile units handed over by 2 shards" in log
    assert f"{JOB}: 5 compile units: 5 from the store, 0 compiled" in log


def test_each_shard_hands_over_one_artifact_with_its_units(sharded: Run) -> None:
    heads = [sharded.artifacts / f"fatwheel-shard-{number}-of-2-{JOB}" / "shard.json" for number in (1, 2)]
    found = [json.loads(path.read_text(encoding="utf-8")) for path in heads]
    assert sorted(source for head in found for source in head["assigned"]) == sorted(["csrc/fast.c", *PARTS])
    assert all(
        set(head["units"].values()) <= held(sharded, path.parent.name) for head, path in zip(found, heads, strict=True)
    )


def test_shards_of_a_pull_request_take_what_a_branch_kept_and_leave_nothing(
    ours: Repository, sharded: Run, tmp_path: Path
) -> None:
    caches = shutil.copytree(sharded.shared / "caches", tmp_path / "run/shared/caches")
    before = {path.name for path in caches.iterdir()}
    run = ran(tmp_path, ours, WHEELS, event=Event.pull_request(), files=files("build: {shards: 2}\n"))
    for number in (1, 2):
        log = run.job(f"Compile {JOB} {number}/2").log
        assert f"5 of them measured; shard {number}/2 compiles" in log, log
        assert " from the store, 0 compiled" in log, log
    assert {path.name for path in caches.iterdir()} == before


def test_no_shard_of_a_release_reads_the_cache(ours: Repository, tmp_path: Path) -> None:
    harness.plant(tmp_path / "run", tmp_path / "mark")
    event = Event.push("refs/tags/v1.0")
    run = ran(tmp_path, ours, WHEELS, event=event, files=files("build: {shards: 2}\n"), tag="v1.0")
    assert run.results[f"Compile {JOB} 2/2"] == "success", run.log
    assert not (tmp_path / "mark").exists()


def test_what_is_light_gets_no_further_job(ours: Repository, sharded: Run, tmp_path: Path) -> None:
    run = ran(tmp_path, ours, WHEELS, TELL, files=files(""))
    assert [name for name, result in run.results.items() if name.startswith("Compile") and result != "skipped"] == []
    assert {row["shards"] for row in json.loads(told(run)["plan"])["include"]} == {1}
    wheels = [next((each.artifacts / "fatwheel-release").glob("*cp312-manylinux*.whl")) for each in (run, sharded)]
    libraries = [
        {one.filename: one.CRC for one in zipfile.ZipFile(wheel).infolist() if ".so" in one.filename}
        for wheel in wheels
    ]
    assert libraries[0] == libraries[1] != {}
