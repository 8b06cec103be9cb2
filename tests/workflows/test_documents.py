"""The workflows that our documents show, run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.servers.uploads import PASSWORD, pypiserver
from tests.unit.github.test_workflow_examples import examples_in_documents
from tests.workflows import harness, repositories
from tests.workflows.harness import Event, Run, World
from tests.workflows.projects import PURE
from tests.workflows.repositories import Repository

pytestmark = pytest.mark.slow

EXAMPLES = {str(example.id): str(example.values[0]) for example in examples_in_documents()}
NIGHT = re.compile(r"tiny-1\.0\.dev\d{8}-py3-none-any\.whl")
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


def whole(page: str) -> str:
    """Return the workflow of a page with all of the jobs that it shows."""
    return [text for name, text in EXAMPLES.items() if name.rpartition("-")[0] == page][-1]


def ran(page: str, event: Event, ours: Repository, home: Path, *, change: bool = False, later: bool = False) -> Run:
    """Run what a page shows, for a pure project that is published to a folder and to PyPI."""
    pinned = re.sub(r"OWNER/fatwheel/(\S+)@SHA", rf"fatwheel/fatwheel/\1@{ours.pin}", whole(page))
    config = f"{PURE['fatwheel.yml']}  targets: ['dir:{home / 'index'}']\n"
    files = {**PURE, "fatwheel.yml": config, ".github/workflows/main.yml": pinned}
    mine = repositories.make_repository(home / "caller", name="me/mine", files=files, tag="v1.0")
    if later:
        repositories.commit_change(mine, {"tiny/later.py": ""})
    if change:
        event = Event.pull_request(base=repositories.commit_change(mine, {"tiny/more.py": ""}))
    with pypiserver(home / "pypi") as index:
        world = World(index=index.upload, index_token=PASSWORD, aws=KEYS)
        return harness.run("main.yml", event, home / "run", mine, ours, world=world)


def published(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("tiny-*") if path.suffix in {".whl", ".gz"}}


@pytest.mark.parametrize("page", ["README", pytest.param("release-from-github", marks=pytest.mark.long)])
def test_a_tag_is_released_by_the_workflow_of_a_page(page: str, ours: Repository, tmp_path: Path) -> None:
    run = ran(page, Event.push("refs/tags/v1.0"), ours, tmp_path)
    assert run.succeeded, run.log
    assert published(tmp_path / "pypi") == {"tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"}
    assert bool(published(tmp_path / "index")) == ("publish:" in whole(page))


@pytest.mark.long
@pytest.mark.parametrize("page", ["README", "release-from-github"])
def test_a_pull_request_is_built_and_nothing_is_signed_or_published(
    page: str, ours: Repository, tmp_path: Path
) -> None:
    run = ran(page, Event.pull_request(), ours, tmp_path, change=True)
    assert run.succeeded, run.log
    assert not (run.artifacts / "fatwheel-attestation").exists()
    assert published(run.artifacts / "fatwheel-release") == {"tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"}
    assert published(tmp_path / "pypi") | published(tmp_path / "index") == set()


@pytest.mark.long
def test_a_schedule_makes_a_nightly_that_pypi_does_not_get(ours: Repository, tmp_path: Path) -> None:
    run = ran("release-from-github", Event.schedule("23 3 * * *"), ours, tmp_path)
    assert run.succeeded, run.log
    assert any(map(NIGHT.fullmatch, published(tmp_path / "index" / "nightly")))
    assert published(tmp_path / "pypi") == set()


def test_a_person_releases_the_tag_that_they_name(ours: Repository, tmp_path: Path) -> None:
    run = ran("release-from-github", Event.dispatch(ref="v1.0", nightly=False), ours, tmp_path, later=True)
    assert run.succeeded, run.log
    whole = {"tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz"}
    assert published(tmp_path / "pypi") == published(tmp_path / "index") == whole


@pytest.mark.long
def test_a_person_makes_a_nightly(ours: Repository, tmp_path: Path) -> None:
    run = ran("release-from-github", Event.dispatch(nightly=True), ours, tmp_path, later=True)
    assert run.succeeded, run.log
    assert any(map(NIGHT.fullmatch, published(tmp_path / "index" / "nightly")))


def test_a_branch_without_the_tag_is_built_and_published_nowhere(ours: Repository, tmp_path: Path) -> None:
    run = ran("release-from-github", Event.dispatch(), ours, tmp_path, later=True)
    assert run.succeeded, run.log
    assert "tiny-1.0-py3-none-any.whl" in published(run.artifacts / "fatwheel-release")
    assert published(tmp_path / "pypi") | published(tmp_path / "index") == set()
