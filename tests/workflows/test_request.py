"""request.yml as it stands: an issue is answered, and what a maintainer approves is built, published and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.sources import committed, git, write
from tests.builders.wheel_house import flit_project
from tests.servers.github import REPOSITORY
from tests.unit.recipes.test_form import body
from tests.workflows import harness, repositories
from tests.workflows.api import Api
from tests.workflows.harness import Event, Run
from tests.workflows.projects import call, workflow

pytestmark = pytest.mark.slow

RECIPE = """\
package: hello
version: "1.0"
source: {{ git: {upstream}, ref: "v{{version}}" }}
python: ["3.12"]
platforms:
  linux-cpu: {{ required: true, container: none }}
build: {{ sdist: false }}
release: {{ tag: "{{package}}-v{{version}}-py{{python}}", untagged: true }}
"""


def run(home: Path, github: Api, text: str, action: str, sender: str = "mallory", **more: object) -> Run:
    upstream = home.parent / "upstream"
    if not upstream.exists():
        committed(write(upstream, {"pyproject.toml": flit_project("hello"), "hello.py": "ANSWER = 42\n"}))
        git(upstream, "tag", "v1.0")
    recipe = RECIPE.format(upstream=upstream)
    name = "issue_comment" if "comment" in more else "issues"
    caller = workflow(name, call("request", "request.yml")).replace("PIN", github.ours.pin)
    caller = caller.replace('"contents": "write"', '"issues": "write", "contents": "write"')
    files = {".github/workflows/main.yml": caller, "recipes/hello/fatwheel.yml": recipe}
    mine = repositories.make_repository(home / "caller", name=REPOSITORY, files=files)
    issue = {"number": 1, "body": text, "author_association": "OWNER"}
    event = Event(name=name, payload={"action": action, "issue": issue, "sender": {"login": sender}, **more})
    return harness.run("main.yml", event, home / "run", mine, github.ours)


def started(done: Run) -> set[str]:
    return {job.name for job in done.jobs if job.steps}


def test_a_request_is_answered_approved_built_and_published(tmp_path: Path, github: Api) -> None:
    github.talk.open("Wheel: hello", "", author="mallory")
    text = body(Package="hello", Version="1.0")
    asked = run(tmp_path / "asked", github, text, "opened")
    assert asked.job("Answer").result == "success", asked.log
    by_template = run(tmp_path / "by-template", github, text, "labeled", label={"name": "build"})
    assert started(by_template) == {"Answer"}, by_template.log
    assert "the permission of mallory is read" in github.talk.of(1)[0]
    github.talk.rights["maintainer"] = "write"
    thanks = run(tmp_path / "thanks", github, text, "created", "maintainer", comment={"body": "Thanks, I look at it"})
    assert started(thanks) == set(), thanks.log
    approved = run(tmp_path / "approved", github, text, "created", "maintainer", comment={"body": "/build"})
    assert approved.job("Answer with the result").result == "success", approved.log
    assert [one.fields["tag_name"] for one in github.hub.releases if not one.fields["draft"]] == ["hello-v1.0-py312"]
    assert len(github.talk.of(1)) == 1
    assert "is published:" in github.talk.of(1)[0]
    hostile = "### Package\n\n$(touch pwned) `id` ${{ github.token }}\n::error::x"
    refused = run(tmp_path / "refused", github, hostile, "edited")
    assert refused.job("Answer").result == "success", refused.log
    assert "This wheel cannot be built" in github.talk.of(1)[0]
    assert not [*tmp_path.rglob("pwned")]
    assert started(refused) == {"Answer"}
