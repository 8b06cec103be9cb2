"""Several configs in one repository: by monorepo.yml, which takes their list, and by a matrix of calls."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.workflows.harness import Event
from tests.workflows.projects import PURE, Job, call, ran, say, told

if TYPE_CHECKING:
    from pathlib import Path

    from tests.workflows.harness import Run
    from tests.workflows.repositories import Repository

pytestmark = pytest.mark.slow

ALPHA, BETA = "alpha/fatwheel.yml", "beta/fatwheel.yml"
DOWNLOAD = "actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1"


def project(name: str, tag: str, **changed: str) -> dict[str, str]:
    """Return the files of a pure project in a folder of its name, with the template of its tag."""
    files = {path.replace("tiny", name): text.replace("tiny", name) for path, text in {**PURE, **changed}.items()}
    files["fatwheel.yml"] += f'release: {{ tag: "{tag}" }}\n'
    return {f"{name}/{path}": text for path, text in files.items()}


def repository(tag: str = "{name}-v{version}", **changed: str) -> dict[str, str]:
    return {**project("alpha", tag), **project("beta", tag, **changed)}


def matrix(job: Job, key: str, values: str) -> Job:
    """Return a job that is done for each value of a matrix."""
    strategy = {"fail-fast": False, "matrix": {key: values}}
    return job._replace(text=json.dumps({**json.loads(job.text), "strategy": strategy}))


LIST = (
    call("wheels", "monorepo.yml", configs=f"{ALPHA} {BETA}"),
    say("tell", "wheels"),
)


def release(home: Path, ours: Repository, ref: str, *, tags: str = "", files: dict[str, str] | None = None) -> Run:
    """Release the two projects by one call that takes their list, and by publish.yml for each that has a release."""
    publish = call("publish", "publish.yml", needs="wheels", artifacts="${{ matrix.project.artifacts }}",
                   to=f"dir:{home}/index")  # fmt: skip
    publish = matrix(publish, "project", "${{ fromJSON(needs.wheels.outputs.releases) }}")
    publish = publish._replace(text=json.dumps({**json.loads(publish.text), "if": "${{ needs.wheels.outputs.releases != '[]' }}"}))
    return ran(home, ours, *LIST, publish, event=Event.push(ref), files=files or repository(), tag=tags)


def wheels(home: Path) -> set[str]:
    return {path.name.split("-")[0] for path in (home / "index").rglob("*.whl")}


def test_a_tag_releases_the_project_it_belongs_to(ours: Repository, tmp_path: Path) -> None:
    run = release(tmp_path, ours, "refs/tags/alpha-v1.0")
    assert run.succeeded, run.log
    assert wheels(tmp_path) == {"alpha"}
    print(run.results, told(run), run.annotations, run.summary)
    assert 0
