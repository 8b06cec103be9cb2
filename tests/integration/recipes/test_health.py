"""fatwheel status on a server that answers like GitHub, and its page in a browser."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.builders.barriers import find_barriers
from tests.servers import github_settings
from tests.servers.github import REPOSITORY, TOKEN, GitHub
from tests.servers.github_runs import Workflows, settle
from tests.servers.prepared import run_prepared

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
RECIPE = """\
package: demo
version: "1.0"
owner: "@octo/gpu"
source: { git: "https://example.invalid/demo", ref: "v{version}" }
python: ["3.13"]
platforms: { linux-cpu: {} }
release: { tag: "demo-v{version}-py{python}", untagged: true }
"""
JOB = "Recipes / Build demo-v1.0-py313"


@pytest.fixture
def workflows(hub: GitHub) -> Workflows:
    """Return two workflows: of recipes, with three runs and one of a pull request, and of a project's wheels."""
    workflows = settle(hub)
    workflows.run("2026-11-02T03:23:00Z", {JOB: "success", "Recipes / Publish": "success"})
    workflows.run("2026-11-09T03:23:00Z", {JOB: "failure", "Recipes / Publish": "skipped"})
    workflows.run("2026-11-10T03:23:00Z", {JOB: "failure"}, event="pull_request")
    workflows.run("2026-11-16T03:23:00Z", {JOB: None})
    workflows.run("2026-11-15T12:00:00Z", {"Build windows": "success"}, workflow="release.yml", event="push")
    hub.add({"tag_name": "demo-v0.9-py313"})
    return workflows


@pytest.fixture
def place(tmp_path: Path, workflows: Workflows) -> Path:
    assert workflows.runs
    (tmp_path / "recipes/demo").mkdir(parents=True)
    (tmp_path / "recipes/demo/fatwheel.yml").write_text(RECIPE, encoding="utf-8")
    return tmp_path


def status(place: Path, hub: GitHub, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    folders = {"HOME": str(place), "FATWHEEL_CACHE": str(place / "cache"), "PYTHONPATH": str(ROOT)}
    own = {"GITHUB_API_URL": hub.url, "GH_TOKEN": TOKEN, **folders, **environ}
    return run_prepared(["status", f"github:{REPOSITORY}", *words], cwd=place, env={**os.environ, **own})


BOTH = ("--workflow", "recipes.yml", "--workflow", "release.yml")


def test_each_line_has_its_owner_its_release_and_its_past(place: Path, hub: GitHub) -> None:
    ran = status(place, hub, *BOTH, "--format", "json")
    assert ran.returncode == 0, ran.stderr
    found = {(one["name"], one["part"]): one for one in json.loads(ran.stdout)}
    assert [*found] == [("demo", "Python 3.13"), ("release.yml", "windows"), ("recipes.yml", ""), ("release.yml", "")]
    demo = found["demo", "Python 3.13"]
    assert [one["outcome"] for one in demo["runs"]] == ["running", "bad", "good"]
    assert (demo["outcome"], demo["succeeded"], demo["tried"], demo["owner"]) == ("bad", 1, 2, "@octo/gpu")
    assert (demo["published"], demo["last_success"]) == ("demo-v0.9-py313", "2026-11-02T03:23:00+00:00")


def test_the_table_the_page_and_the_badge_say_the_same(place: Path, hub: GitHub) -> None:
    ran = status(place, hub, *BOTH, "--page", "public/status.html", "--badge", "public/status.svg")
    assert ran.returncode == 0, ran.stderr
    assert "1 of 2 lines good" in ran.stdout
    assert "1 of 2 build" in (place / "public/status.html").read_text(encoding="utf-8")
    assert "wheels: 1 of 2 build" in (place / "public/status.svg").read_text(encoding="utf-8")


def test_only_the_newest_runs_are_read(place: Path, hub: GitHub) -> None:
    found = json.loads(status(place, hub, *BOTH, "--runs", "1", "--format", "json").stdout)
    assert [len(one["runs"]) for one in found] == [1, 1, 1, 1]
    assert sum(request.endswith("/jobs") for request in hub.requests) == 2


def count_jobs(hub: GitHub) -> int:
    """Return how many times the jobs of a run were asked for."""
    return sum(request.endswith("/jobs") for request in hub.requests)


def test_the_jobs_of_a_finished_run_are_asked_for_once(place: Path, hub: GitHub, workflows: Workflows) -> None:
    first = status(place, hub, *BOTH, "--format", "json").stdout
    asked = count_jobs(hub)
    assert status(place, hub, *BOTH, "--format", "json").stdout == first
    assert (asked, count_jobs(hub)) == (4, 5)  # the one that is still running is asked again
    (failed,) = (ran for ran in workflows.runs if ran.conclusion == "failure" and ran.event == "schedule")
    failed.jobs, failed.conclusion, failed.attempt = {JOB: "success"}, "success", 2  # somebody ran it again
    found = json.loads(status(place, hub, *BOTH, "--format", "json").stdout)
    assert [one["outcome"] for one in found[0]["runs"]] == ["running", "good", "good"]
    assert count_jobs(hub) == 7


def test_kept_jobs_that_are_not_whole_are_read_again(place: Path, hub: GitHub) -> None:
    first = status(place, hub, *BOTH, "--format", "json").stdout
    kept = [*(place / "cache").rglob("100*-1.json")]
    assert len(kept) == 3
    kept[0].write_text("[[")
    kept[1].write_text('[["a", "splendid", "b"]]')
    assert status(place, hub, *BOTH, "--format", "json").stdout == first
    assert count_jobs(hub) == 4 + 3


def test_where_github_answers_no_more_the_runs_count_and_it_is_said(place: Path, hub: GitHub) -> None:
    hub.is_public, hub.left = True, 15  # the repository, two workflows and their runs are five; then two have jobs
    ran = status(place, hub, *BOTH, "--format", "json", GH_TOKEN="", GITHUB_TOKEN="")
    assert ran.returncode == 0, ran.stderr
    assert "the jobs of 2 of 4 runs are not read: for now GitHub answers no more requests" in ran.stderr
    assert "without a token GitHub answers 60 requests an hour" in ran.stderr
    assert {one["name"]: len(one["runs"]) for one in json.loads(ran.stdout) if not one["part"]} == {
        "recipes.yml": 3, "release.yml": 1}  # fmt: skip


def test_a_limit_that_is_reached_says_what_a_token_changes(place: Path, hub: GitHub) -> None:
    hub.is_public, hub.left = True, 1
    ran = status(place, hub, *BOTH, GH_TOKEN="", GITHUB_TOKEN="")
    assert ran.returncode == 3
    assert "GitHub's rate limit is reached; it asks to wait" in ran.stderr
    assert (
        'without a token GitHub answers 60 requests an hour, with one 5,000: export GH_TOKEN="$(gh auth' in ran.stderr
    )


def test_a_private_repository_asks_for_a_token(place: Path, hub: GitHub) -> None:
    ran = status(place, hub, *BOTH, GH_TOKEN="", GITHUB_TOKEN="")
    assert ran.returncode == 2
    assert f"{REPOSITORY} on 127.0.0.1 does not exist, or is private, which only a token shows" in ran.stderr
    assert 'for a private one: export GH_TOKEN="$(gh auth token)"' in ran.stderr


def test_without_a_name_the_workflows_that_use_fatwheel_are_found(place: Path, hub: GitHub) -> None:
    caller = "on: push\njobs:\n  a:\n    uses: octo/fatwheel/.github/workflows/recipes.yml@v1\n"
    settings = github_settings.settle(hub)
    settings.files[".github/workflows/recipes.yml"] = caller.encode()
    settings.files[".github/workflows/release.yml"] = b"on: push\njobs:\n  a:\n    runs-on: ubuntu-24.04\n"
    found = json.loads(status(place, hub, "--format", "json").stdout)
    assert [one["name"] for one in found] == ["demo", "recipes.yml"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(("--workflow", "recipe.yml"), 'no workflow "recipe.yml", did you mean "recipes.yml"?', id="typo"),
        pytest.param(("--workflow", "../x"), 'no workflow "../x"', id="a-path"),
        pytest.param(("--runs", "101"), "expected at most 100", id="too-many"),
        pytest.param(("--runs", "0"), "is not a number", id="none"),
        pytest.param((*BOTH, "--config", "gone.yml"), "gone.yml", id="no-config"),
    ],
)
def test_what_is_wrong_is_said(place: Path, hub: GitHub, words: tuple[str, ...], said: str) -> None:
    ran = status(place, hub, *words)
    assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_page_fits_and_has_no_barrier(place: Path, hub: GitHub, browser: Browser) -> None:
    status(place, hub, *BOTH, "--page", "status.html")
    with browser.new_context(color_scheme="light") as context:
        page = context.new_page()
        page.goto((place / "status.html").as_uri())
        assert page.get_by_role("rowheader").count() == 4
        for width in (320, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            assert find_barriers(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.emulate_media(color_scheme="dark")
        assert find_barriers(page, colours_only=True) == []
