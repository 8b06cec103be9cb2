"""The guide "Your own wheel house": its template and the commands before the first run; tests/workflows has the run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import walkthroughs, wheel_house
from tests.builders.sources import committed, git, write
from tests.servers.github import REPOSITORY, TOKEN, GitHub, github_server
from tests.servers.github_settings import Elsewhere, settle
from tests.servers.prepared import run_prepared

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PIN = "1" * 40
OURS = "octo-tools/fatwheel"
MAX_LINES = 30
UPSTREAM = {
    "pyproject.toml": wheel_house.flit_project("hello-native"),
    "hello_native.py": "ANSWER = 42\n",
}
WORKFLOW, RECIPE = wheel_house.read_template()


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """Return the checkout of a house of the template, and a repository of a package beside it."""
    upstream = write(tmp_path / "upstream", UPSTREAM)
    committed(upstream)
    git(upstream, "tag", "v1.0")
    workflow = WORKFLOW.replace("OWNER/fatwheel", OURS).replace("SHA # vX.Y.Z", f"{PIN} # v1.4.0")
    files = {
        ".github/workflows/wheels.yml": workflow,
        "recipes/hello-native/fatwheel.yml": wheel_house.with_source(RECIPE, str(upstream)),
    }
    return write(tmp_path / "house", files)


@pytest.fixture
def hub(house: Path) -> Iterator[GitHub]:
    """Yield the GitHub that the house is pushed to, and that has ours."""
    with github_server() as server:
        settings = settle(server)
        name = ".github/workflows/wheels.yml"
        settings.files[name] = (house / name).read_bytes()
        ours = (ROOT / ".github/workflows/recipes.yml").read_text(encoding="utf-8")
        settings.elsewhere[OURS] = Elsewhere({"v1.4.0": PIN}, {(PIN, ".github/workflows/recipes.yml"): ours})
        yield server


def test_the_template_has_under_thirty_lines() -> None:
    assert len((WORKFLOW + RECIPE).splitlines()) < MAX_LINES


def test_the_commands_of_the_guide_do_what_it_shows(house: Path, hub: GitHub) -> None:
    own = {"GITHUB_API_URL": hub.url, "GH_TOKEN": TOKEN, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    check, doctor, later = (block.text for block in wheel_house.read_typed())
    ((typed, shown),) = walkthroughs.commands(check)
    ran = run_prepared(typed.split()[1:], cwd=house, env={**os.environ, **own}, together=True)
    said = re.sub(r"\b[0-9a-f]{12}\b", walkthroughs.ANY, ran.stdout)  # a commit
    walkthroughs.assert_shown(shown, said, house)
    ((typed, _),) = walkthroughs.commands(doctor)
    ran = run_prepared(typed.replace("my-org/wheels", REPOSITORY).split()[1:], cwd=house, env={**os.environ, **own})
    assert ran.returncode == 0, ran.stdout
    assert "0 errors" in ran.stdout or "nothing" in ran.stdout, ran.stdout
    watch, pages, install = (typed for typed, _ in walkthroughs.commands(later))
    ran = run_prepared(watch.replace("my-org/wheels", REPOSITORY).split()[1:], cwd=house, env={**os.environ, **own})
    assert "1 of 1 release due" in ran.stdout, ran.stderr
    assert (pages.split()[1:3], install.split()[:2]) == (["index", "pages"], ["pip", "install"])


def test_a_house_that_may_not_publish_is_told_before_it_runs(house: Path, hub: GitHub) -> None:
    workflow = house / ".github/workflows/wheels.yml"
    weaker = re.sub(r"contents: write", "contents: read", workflow.read_text(encoding="utf-8"))
    settings = settle(hub)
    settings.files[".github/workflows/wheels.yml"] = weaker.encode()
    ours = (ROOT / ".github/workflows/recipes.yml").read_text(encoding="utf-8")
    settings.elsewhere[OURS] = Elsewhere({"v1.4.0": PIN}, {(PIN, ".github/workflows/recipes.yml"): ours})
    own = {"GITHUB_API_URL": hub.url, "GH_TOKEN": TOKEN, "PYTHONPATH": str(ROOT)}
    ran = run_prepared(["doctor", REPOSITORY], cwd=house, env={**os.environ, **own})
    assert ran.returncode != 0
    assert "house lacks `contents: write`" in ran.stdout
