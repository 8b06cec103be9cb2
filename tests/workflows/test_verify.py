"""verify.yml as its page calls it: the last release is made again, and what has the same bytes is signed once more."""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from pathlib import Path

import pytest

from tests.servers.github import REPOSITORY
from tests.servers.prepared import run_prepared
from tests.workflows import harness, repositories
from tests.workflows.api import Api
from tests.workflows.harness import Event, Run
from tests.workflows.projects import PURE
from tests.workflows.repositories import Repository
from tests.workflows.test_documents import whole

pytestmark = [pytest.mark.slow, pytest.mark.long]

WHEEL = "tiny-1.0-py3-none-any.whl"


def release(home: Path, github: Api, *, change: bool) -> Repository:
    """Publish the first release of a project, with another file in its wheel if that is to be changed."""
    pinned = re.sub(r"OWNER/fatwheel/(\S+)@SHA", rf"fatwheel/fatwheel/\1@{github.ours.pin}", whole("verify-a-wheel"))
    files = {**PURE, ".github/workflows/main.yml": pinned}
    mine = repositories.make_repository(home / "caller", name=REPOSITORY, files=files, tag="v1.0")
    built = run_prepared(["build", "--job", "pure", "--out", str(home / "dist")], cwd=mine.folder, env={**os.environ})
    assert built.returncode == 0, built.stderr
    if change:
        with zipfile.ZipFile(home / "dist" / WHEEL, "a") as archive:
            archive.writestr("tiny/more.py", "")
    stored = github.hub.upload(github.hub.add({"tag_name": "v1.0"}), WHEEL)
    stored.content, stored.state = (home / "dist" / WHEEL).read_bytes(), "uploaded"
    return mine


def ran(home: Path, github: Api, *, change: bool = False) -> Run:
    github.hub.releases.clear()
    mine = release(home, github, change=change)
    return harness.run("main.yml", Event.schedule("41 5 * * 3"), home / "run", mine, github.ours)


def signed(run: Run) -> set[str]:
    """Return the sha256 of what the run signed."""
    bundle = run.artifacts / "fatwheel-verify-attestation" / "attestation.json"
    return {one["digest"]["sha256"] for one in json.loads(bundle.read_text())["subject"]}


def test_the_last_release_is_made_again_and_signed(tmp_path: Path, github: Api) -> None:
    run = ran(tmp_path, github)
    assert run.succeeded, run.log
    verdict = json.loads((run.artifacts / "fatwheel-verify-remade-0" / "verdicts" / f"{WHEEL}.json").read_text())
    assert verdict["same"]
    assert signed(run) == {hashlib.sha256((tmp_path / "dist" / WHEEL).read_bytes()).hexdigest()}


def test_a_wheel_that_differs_is_red_and_nothing_says_that_it_was_made_again(tmp_path: Path, github: Api) -> None:
    run = ran(tmp_path, github, change=True)
    assert run.job(f"Make {WHEEL} again").result == "failure"
    assert "only the wheel has it" in run.log
    assert hashlib.sha256((tmp_path / "dist" / WHEEL).read_bytes()).hexdigest() not in signed(run)
