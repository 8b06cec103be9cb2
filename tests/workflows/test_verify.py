"""verify.yml as its page calls it: the last release is made again, and what has the same bytes is signed once more."""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.builders import own_backend, remade
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
JOB, OF_OTHER_CUDA = "linux-cuda-cu129-cp312", "tiny-1.0+cu129-cp312-cp312-linux_x86_64.whl"
OTHER_CUDA = """\
package: tiny
python: ["3.12"]
platforms:
  linux-cuda: {cuda: ["12.9"], archs: ["9.0"], native: ["*.cpp"], wheel-platform: linux, container: none}
"""


def ran(home: Path, github: Api, *, change: bool = False) -> Run:
    """Make the last release of a project again; with `change`, its wheel has another file."""
    mine = open_caller(home, github, PURE)
    built = run_prepared(["build", "--job", "pure", "--out", str(home / "dist")], cwd=mine.folder, env={**os.environ})
    assert built.returncode == 0, built.stderr
    if change:
        with zipfile.ZipFile(home / "dist" / WHEEL, "a") as archive:
            archive.writestr("tiny/more.py", "")
    return verify(home, github, mine, home / "dist" / WHEEL)


def open_caller(home: Path, github: Api, files: dict[str, str]) -> Repository:
    pinned = re.sub(r"OWNER/fatwheel/(\S+)@SHA", rf"fatwheel/fatwheel/\1@{github.ours.pin}", whole("verify-a-wheel"))
    files = {**files, ".github/workflows/main.yml": pinned}
    return repositories.make_repository(home / "caller", name=REPOSITORY, files=files, tag="v1.0")


def verify(home: Path, github: Api, mine: Repository, wheel: Path) -> Run:
    """Publish a wheel as the only release, and make it again."""
    github.hub.releases.clear()
    stored = github.hub.upload(github.hub.add({"tag_name": "v1.0"}), wheel.name)
    stored.content, stored.state = wheel.read_bytes(), "uploaded"
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


def test_a_wheel_for_a_cuda_that_cannot_be_had_is_one_sentence_on_the_page(tmp_path: Path, github: Api) -> None:
    mine = open_caller(tmp_path, github, {**own_backend.FILES, "tiny/__init__.py": "", "fatwheel.yml": OTHER_CUDA})

    def state(sbom: dict[str, Any]) -> None:
        described, said = sbom["metadata"]["component"], {"source:commit": repositories.head(mine), "job": JOB}
        described["name"] = "tiny"
        described["properties"] += [{"name": f"fatwheel:{name}", "value": value} for name, value in said.items()]

    run = verify(tmp_path, github, mine, remade.write_stating_wheel(tmp_path / OF_OTHER_CUDA, state))
    job = run.job(f"Make {OF_OTHER_CUDA} again")
    assert job.result == "failure"
    said = html.unescape(job.summary)
    assert f"{OF_OTHER_CUDA} cannot be made on this machine: no CUDA 12.9 is installed" in said
    assert "the config at the wheel's commit counts" in said  # nobody changes that here
