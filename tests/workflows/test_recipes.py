"""recipes.yml as it stands: what is due is built and released, and nothing of it a second time."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.recipes.upstream import cudas_of
from tests.builders import wheel_house
from tests.builders.sources import committed, git, write
from tests.builders.walkthroughs import REPOSITORY as ROOT
from tests.builders.walkthroughs import commands
from tests.servers.github import REPOSITORY
from tests.servers.prepared import FATWHEEL, PIP, run_prepared
from tests.workflows import api, harness, repositories
from tests.workflows.api import Api
from tests.workflows.harness import Event, Run

pytestmark = pytest.mark.slow

TORCHY = """\
package: torchy
version: "1.0"
source: {{ git: "{upstream}", ref: "v{{version}}" }}
python: ["3.12"]
torch: ["2.10"]
platforms: {{ linux-cpu: {{ required: true, native: ["*.cpp"], container: none }} }}
release: {{ tag: "{{package}}-v{{version}}-torch{{torch}}", untagged: true }}
"""
SLASHED = """\
package: hello-native
version: "1.0"
source: {{ git: "{upstream}", ref: "v{{version}}" }}
python: ["3.12"]
platforms: {{ linux-cpu: {{ required: true, container: none }} }}
build: {{ sdist: false }}
release: {{ tag: "{{package}}/v{{version}}+ünï#1'|<x>", untagged: true }}
"""
STRANGE = "hello-native/v1.0+ünï#1'|<x>"
OURS = "fatwheel/fatwheel"
TAG, WHEEL = "hello-native-v1.0-py312", "hello_native-1.0-py3-none-any.whl"
KNOWN = catalog.load()
NEWEST = max(torch for torch in KNOWN.torch if cudas_of(torch, KNOWN))
WORKFLOW, RECIPE = wheel_house.read_template()


def run(home: Path, github: Api, recipes: str, more: str = "", event: Event | None = None, **given: str) -> Run:
    """Run the workflow of the guide with its recipe, one whose tag does not exist, and one that needs a torch."""
    upstream = home.parent / "upstream"
    if not upstream.exists():
        committed(
            write(
                upstream,
                {"pyproject.toml": wheel_house.flit_project("hello-native"), "hello_native.py": "ANSWER = 42\n"},
            )
        )
        git(upstream, "tag", "v1.0")
    # act has no container, and the sources are on this machine
    recipe = wheel_house.with_source(RECIPE, str(upstream)).replace("required: true", "required: true, container: none")
    configs = {
        "hello-native": recipe + more,
        "gone": recipe.replace("hello-native", "gone").replace('"1.0"', '"9.0"'),
        "torchy": TORCHY.format(upstream=upstream),
        "broken": recipe.replace('python: ["3.12"]', "python: 3"),
        "slashed": SLASHED.format(upstream=upstream),
    }
    files = {f"recipes/{name}/fatwheel.yml": text for name, text in configs.items() if name in recipes}
    inputs = ", ".join(f"{name.replace('_', '-')}: {value}" for name, value in given.items())
    text = WORKFLOW.replace("{ recipes: hello-native }", f"{{ recipes: {recipes}, {inputs} }}")
    text = re.sub(r"OWNER/fatwheel/(\S+)@SHA", rf"{OURS}/\1@{github.ours.pin}", text)
    mine = repositories.make_repository(
        home / "caller", name=REPOSITORY, files={".github/workflows/main.yml": text, **files}
    )
    return harness.run("main.yml", event or Event.dispatch(), home / "run", mine, github.ours)


def follow_the_rest(tmp_path: Path, github: Api) -> None:
    """Type the last commands of the guide: what was published is known, and pip installs it from an index of it."""
    house, there = tmp_path / "first" / "caller", tmp_path / "there"
    own = {"GITHUB_API_URL": github.hub.url, "GH_TOKEN": harness.TOKEN, "PYTHONPATH": str(ROOT)}
    said = []
    for typed, _ in commands(wheel_house.read_typed()[-1].text):
        words = typed.replace("my-org/wheels", REPOSITORY).replace("$PWD", str(house)).split()
        program = FATWHEEL if words[0] == "fatwheel" else PIP
        more = ["--target", str(there), "--no-deps"] if program == PIP else []
        done = run_prepared([*words[1:], *more], cwd=house, env={**os.environ, **own}, program=program)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert f"{TAG} is published, by the same recipe" in " ".join(said[0].split())
    assert (there / "hello_native.py").read_text(encoding="utf-8") == "ANSWER = 42\n"


def test_what_is_due_is_released_once_and_what_fails_stops_nothing_else(tmp_path: Path, github: Api) -> None:
    first = run(tmp_path / "first", github, "hello-native gone")
    assert "2 of 2 releases due" in first.summary, first.log
    assert {name: result for name, result in first.results.items() if " " in name and " part " not in name} == {
        "Find what is due": "success", f"Build {TAG}": "success", "Build gone-v9.0-py312": "failure",
    }, first.log  # fmt: skip
    assert 'no branch or tag "v9.0"' in first.job("Build gone-v9.0-py312").log
    assert first.job("Publish part 1").result == "success", first.log
    assert {step.name: step.result for step in first.job("Publish part 1").steps}["Verify attestation"] == "success"
    statement = json.loads((first.artifacts / "attestation-1" / "attestation.json").read_text())
    names = {subject["name"] for subject in statement["subject"]}
    assert names == {WHEEL, f"{WHEEL}.json", "index.json", "plan.json"}
    (release,) = (one for one in github.hub.releases if not one.fields["draft"])
    assert "not attested" not in release.fields["body"]
    assert [one.fields["tag_name"] for one in github.hub.releases if not one.fields["draft"]] == [TAG]
    follow_the_rest(tmp_path, github)
    (cron,) = re.findall(r'- cron: "(.+)"', WORKFLOW)
    second = run(tmp_path / "second", github, "hello-native", event=Event.schedule(cron))
    assert "0 of 1 release due" in second.summary, second.log
    assert "by the same recipe" in second.summary
    assert {job.name for job in second.jobs if job.steps} == {"Find what is due"}
    third = run(tmp_path / "third", github, "hello-native", "validate: { imports: [hello_native] }\n", attest="never")
    assert {job.name for job in third.jobs if job.steps} == {"Find what is due", f"Build {TAG}", "Publish part 1"}
    assert third.job("Publish part 1").result == "success", third.log
    (rebuilt,) = (one for one in github.hub.releases if one.fields["tag_name"] == f"{TAG}-r1")
    assert "not attested" in rebuilt.fields["body"]
    news = run(tmp_path / "news", github, "hello-native torchy", "validate: { imports: [hello_native] }\n",
               follow="torch", dry_run="true")  # fmt: skip
    assert {job.name for job in news.jobs if job.steps} == {"Find what is due"}, news.log
    rows = re.findall(r"<code>([^<]+)</code> \| (\w+) \| (.+?) \|", news.summary)
    assert [(state, why) for _, state, why in rows] == [
        ("due", "no release has its tag"),
        ("due", f"torch {NEWEST} is published"),
        ("done", f"{TAG}-r1 is published, by the same recipe"),
    ], news.summary


@pytest.mark.long
def test_any_tag_is_released_and_a_recipe_that_cannot_be_read_is_said(tmp_path: Path, github: Api) -> None:
    """It ends the first job, whose outputs the others take all the same."""
    done = run(tmp_path / "slashed", github, "slashed broken")
    assert done.job("Find what is due").result == "failure"
    assert any("fatwheel.yml:4:9: 3 is not allowed" in one.message for one in done.annotations), done.annotations
    assert done.job("Publish part 1").result == "success", done.log
    assert STRANGE in {one.fields["tag_name"] for one in github.hub.releases if not one.fields["draft"]}


@pytest.mark.long
def test_parts_are_signed_and_published_each_by_itself(tmp_path: Path) -> None:
    """A part of which nothing could be built has nothing to sign, and holds no other back."""
    tables = (ROOT / "ci_tools/cli/tables/recipes.py").read_text(encoding="utf-8")
    small = {"ci_tools/cli/tables/recipes.py": re.sub(r"(?m)^PART = 8", "PART = 1", tables)}
    with api.opened(tmp_path / "ours", small) as github:
        done = run(tmp_path / "first", github, "hello-native gone")
        tags = {one.fields["tag_name"] for one in github.hub.releases if not one.fields["draft"]}
    results = {name: result for name, result in done.results.items() if " part " in name}
    assert results == {f"{what} part {number}": "success" for what in ("Attest", "Publish") for number in (1, 2)}
    assert tags == {TAG}
    assert [path.name for path in done.artifacts.glob("attestation-*")] == ["attestation-2"]
