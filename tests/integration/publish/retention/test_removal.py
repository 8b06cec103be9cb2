"""Superseded releases on a server that answers like GitHub: shown, removed with --yes, and whatever comes between."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.github_release import GitHubTarget
from ci_tools.recipes.readme import BEGIN, END
from tests.builders import releases, wheels
from tests.servers.github import HEAD, REPOSITORY, TOKEN, Fault, GitHub, github_server, rate_limited, refusal
from tests.servers.prepared import run_prepared

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
CONFIG = """\
package: demo
python: ["3.12"]
platforms: { linux-cpu: {} }
release: { tag: "v{version}", retention: { nightlies: 1 } }
"""
OLD, NEW = "v1.1.dev20261120", "v1.1.dev20261121"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> GitHub:
    """Return a repository with two nightlies, a stable release, one of others and a draft, which is only copied."""
    folder = tmp_path_factory.mktemp("filled")
    outside = Outside(environ={"GH_TOKEN": TOKEN}, cache=folder / "cache", reporter=Silent())
    with github_server() as server:
        for tag in (OLD, NEW, "v1.0"):
            version = tag.removeprefix("v")
            wheel = wheels.make(folder / tag, f"demo-{version}-py3-none-any.whl")
            unit = replace(
                releases.unit("demo", releases.item(wheel), version=version), tag=tag, title=tag, commit=HEAD
            )
            releases.publish(GitHubTarget(REPOSITORY, outside, base_url=server.url, pause=0.01), unit)
        server.add({"tag_name": "v0.9.dev20250101", "name": "by hand"})
        server.add({"tag_name": "v1.2", "draft": True})
    return server


@pytest.fixture
def hub(filled: GitHub) -> Iterator[GitHub]:
    """A copy of that repository, for one test alone."""
    with github_server() as server:
        server.take_over(filled)
        yield server


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a folder with a config."""
    (tmp_path / "fatwheel.yml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def run(place: Path, hub: GitHub, verb: str, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    own = {"GITHUB_API_URL": hub.url, "GH_TOKEN": TOKEN, "PYTHONPATH": str(ROOT), **environ}
    command = ["releases", verb, f"github:{REPOSITORY}", "--config", "fatwheel.yml", *words]
    return run_prepared(command, cwd=place, env={**os.environ, "GITHUB_TOKEN": "", **own})


def tags(hub: GitHub) -> list[str]:
    return sorted(str(one.fields["tag_name"]) for one in hub.releases)


ALL = ["v0.9.dev20250101", "v1.0", OLD, NEW, "v1.2"]


def test_they_are_shown_first_and_removed_with_yes(place: Path, hub: GitHub) -> None:
    shown = run(place, hub, "prune", "--format", "json")
    assert (shown.returncode, [one["tag"] for one in json.loads(shown.stdout)]) == (0, [OLD])
    assert "--yes removes them; nothing is changed yet" in shown.stderr
    assert tags(hub) == ALL
    done = run(place, hub, "prune", "--yes")
    assert (done.returncode, "1 release removed" in done.stdout) == (0, True)
    assert tags(hub) == [tag for tag in ALL if tag != OLD]
    assert OLD in hub.tags  # git tags stay
    again = run(place, hub, "prune", "--yes")
    assert "there is nothing to remove" in again.stderr


def test_every_release_is_listed_with_its_reason(place: Path, hub: GitHub) -> None:
    found = json.loads(run(place, hub, "list", "--format", "json").stdout)
    assert {one["tag"]: (one["fate"], one["reason"]) for one in found} == {
        "v1.2": ("keep", "a draft: somebody may be publishing it"),
        "v0.9.dev20250101": ("keep", "Fatwheel did not publish it"),
        "v1.0": ("keep", "a stable release"),
        NEW: ("keep", "the newest nightly"),
        OLD: ("remove", "1 nightly is newer, 1 is kept"),
    }
    table = run(place, hub, "list").stdout
    assert ("quotas" in table, "5 releases" in table) == (True, True)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        pytest.param(("--keep", "v9*"), 2, 'keep: "v9*" is the tag of no release', id="idle-keep-list"),
        pytest.param(("--keep", " "), 2, "it is empty", id="empty-keep-list"),
        pytest.param(("--config", "none.yml"), 2, "there is no none.yml", id="no-config"),
    ],
)
def test_a_mistake_removes_nothing(place: Path, hub: GitHub, words: tuple[str, ...], status: int, said: str) -> None:
    ran = run(place, hub, "prune", "--yes", *words)
    assert (ran.returncode, said in ran.stderr, "Traceback" in ran.stderr) == (status, True, False)
    assert tags(hub) == ALL


def test_a_mistake_in_the_setting_has_its_line(place: Path, hub: GitHub) -> None:
    (place / "fatwheel.yml").write_text(CONFIG.replace("nightlies: 1", "nigthlies: 1"), encoding="utf-8")
    ran = run(place, hub, "prune", "--yes")
    assert (ran.returncode, "fatwheel.yml:4" in ran.stderr, "nightlies" in ran.stderr) == (2, True, True)
    assert tags(hub) == ALL


def test_without_a_token_nothing_is_removed(place: Path, hub: GitHub) -> None:
    ran = run(place, hub, "prune", "--yes", GH_TOKEN="")
    assert ran.returncode == 2
    assert tags(hub) == ALL


def test_what_others_put_into_a_release_keeps_it(place: Path, hub: GitHub) -> None:
    kept = hub.published(OLD)
    assert kept
    asset = hub.upload(kept, "notes-of-a-user.txt")
    asset.content, asset.state = b"mine", "uploaded"
    ran = run(place, hub, "prune", "--yes")
    assert (ran.returncode, OLD in tags(hub)) == (0, True)
    assert "it holds notes-of-a-user.txt, which Fatwheel did not put there" in run(place, hub, "list").stdout


def test_a_release_that_changes_or_goes_meanwhile_is_left_alone(place: Path, hub: GitHub) -> None:
    kept = hub.published(OLD)
    assert kept

    def change() -> None:
        kept.fields["body"] += "\nplease keep this one"

    def vanish() -> None:
        hub.releases.remove(kept)

    listing = len(hub.requests)
    run(place, hub, "prune")
    looks = len(hub.requests) - listing  # then comes the repository, and the release once more
    for happens, said in ((change, "it was changed since it was listed"), (vanish, "somebody else has removed it")):
        hub.fail_at(looks + 2, happens)
        ran = run(place, hub, "prune", "--yes")
        assert (ran.returncode, said in ran.stdout) == (0, True), ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        pytest.param(rate_limited(), 0, id="rate-limit"),
        pytest.param(Fault.FORGET, 0, id="no-answer"),
        pytest.param(refusal(403, "Resource not accessible by integration"), 2, id="forbidden"),
    ],
)
def test_a_removal_waits_goes_on_or_says_who_may(place: Path, hub: GitHub, fault: object, status: int) -> None:
    listing = len(hub.requests)
    run(place, hub, "prune")
    hub.fail_at(len(hub.requests) - listing + 3, fault)  # type: ignore[arg-type]
    ran = run(place, hub, "prune", "--yes")
    assert (ran.returncode, OLD in tags(hub)) == (status, status != 0), ran.stdout + ran.stderr
    assert ("contents: write" in ran.stderr) == (status != 0)


def test_a_readme_is_kept_current(place: Path, hub: GitHub) -> None:
    readme = place / "README.md"
    readme.write_text(f"# Wheels\r\n{BEGIN}\r\nold\r\n{END}\r\nrest\r\n", encoding="utf-8", newline="")
    words = ("readme",)
    stale = run(place, hub, *words, "--check")
    assert (stale.returncode, "README.md is stale" in stale.stderr, "old" in readme.read_text()) == (1, True, True)
    assert run(place, hub, *words).returncode == 0
    text = readme.read_bytes().decode()
    assert (text.count("\n"), text.count("\r\n")) == (9, 9)
    assert "demo-1.0-py3-none-any.whl</code>" in text
    assert "dev2026" not in text
    fresh = run(place, hub, *words, "--check")
    assert (fresh.returncode, "up to date" in fresh.stderr) == (0, True)
    readme.write_text("# Wheels\n", encoding="utf-8")
    refused = run(place, hub, *words)
    assert (refused.returncode, "README.md has none, expected the lines" in refused.stderr) == (2, True)


def test_a_quota_that_stable_releases_exceed_is_said(place: Path, hub: GitHub) -> None:
    (place / "fatwheel.yml").write_text(CONFIG.replace("nightlies: 1", "assets: 1"), encoding="utf-8")
    ran = run(place, hub, "prune", "--yes")
    assert (ran.returncode, "its quota is 1, and what is left is kept" in ran.stderr) == (1, True)
    assert tags(hub) == ["v0.9.dev20250101", "v1.0", NEW, "v1.2"]
