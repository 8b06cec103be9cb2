"""recipes.yml as it stands: what is due is built and released, and nothing of it a second time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.builders.sources import committed, git, write
from tests.servers.github import REPOSITORY
from tests.workflows import api, harness
from tests.workflows.harness import Event
from tests.workflows.projects import call, workflow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.workflows.api import Api
    from tests.workflows.harness import Run

pytestmark = pytest.mark.slow

PROJECT = """\
[build-system]
requires = ["flit_core>=3.9"]
build-backend = "flit_core.buildapi"

[project]
name = "hello"
version = "1.0"
description = "Hello."
license = "MIT"
requires-python = ">=3.10"
"""
RECIPE = """\
package: hello
version: "{version}"
source: {{ git: {upstream}, ref: "v{{version}}" }}
python: ["3.12"]
platforms:
  linux-cpu: {{ required: true, container: none }}
build: {{ sdist: false }}
release: {{ tag: "{{package}}-v{{version}}-py{{python}}", untagged: true }}
"""


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with api.opened(tmp_path_factory.mktemp("ours")) as opened:
        yield opened


def run(home: Path, github: Api, recipes: str, more: str = "", **given: str) -> Run:
    """Run a caller's workflow with a recipe that works and one whose tag does not exist."""
    upstream = home.parent / "upstream"
    if not upstream.exists():
        committed(write(upstream, {"pyproject.toml": PROJECT, "hello.py": "ANSWER = 42\n"}))
        git(upstream, "tag", "v1.0")
    configs = {
        name: RECIPE.format(version=version, upstream=upstream) + more
        for name, version in (("hello", "1.0"), ("gone", "9.0"))
    }
    files = {f"recipes/{name}/fatwheel.yml": text for name, text in configs.items()}
    text = workflow("workflow_dispatch", call("recipes", "recipes.yml", recipes=recipes, **given)).replace(
        "PIN", github.ours.pin
    )
    mine = harness.repository(home / "caller", name=REPOSITORY, files={".github/workflows/main.yml": text, **files})
    return harness.run("main.yml", Event.dispatch(), home / "run", mine, github.ours)


def test_what_is_due_is_released_once_and_what_fails_stops_nothing_else(tmp_path: Path, github: Api) -> None:
    first = run(tmp_path / "first", github, "hello gone")
    assert "2 of 2 releases due" in first.summary, first.log
    assert {name: result for name, result in first.results.items() if " " in name} == {
        "Find what is due": "success", "Build hello-v1.0-py312": "success", "Build hello-v9.0-py312": "failure",
    }, first.log  # fmt: skip
    assert 'no branch or tag "v9.0"' in first.job("Build hello-v9.0-py312").log
    assert first.job("Publish").result == "success", first.log
    assert {step.name: step.result for step in first.job("Publish").steps}["Verify attestation"] == "success"
    statement = json.loads((first.artifacts / "attestation" / "attestation.json").read_text())
    names = {subject["name"] for subject in statement["subject"]}
    assert names == {"hello-1.0-py3-none-any.whl", "hello-1.0-py3-none-any.whl.json", "index.json", "plan.json"}
    (release,) = (one for one in github.hub.releases if not one.fields["draft"])
    assert "not attested" not in release.fields["body"]
    assert [one.fields["tag_name"] for one in github.hub.releases if not one.fields["draft"]] == ["hello-v1.0-py312"]
    second = run(tmp_path / "second", github, "hello")
    assert "0 of 1 release due" in second.summary, second.log
    assert "by the same recipe" in second.summary
    assert {job.name for job in second.jobs if job.steps} == {"Find what is due"}
    third = run(tmp_path / "third", github, "hello", "validate: { imports: [hello] }\n", attest="never")
    assert {job.name for job in third.jobs if job.steps} == {"Find what is due", "Build hello-v1.0-py312", "Publish"}
    assert third.job("Publish").result == "success", third.log
    (rebuilt,) = (one for one in github.hub.releases if one.fields["tag_name"] == "hello-v1.0-py312-r1")
    assert "not attested" in rebuilt.fields["body"]
