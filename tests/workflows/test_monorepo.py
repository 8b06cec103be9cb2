"""Several configs in one repository: by monorepo.yml, which takes their list, and by a matrix of calls."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.servers.uploads import PASSWORD, pypiserver
from tests.workflows import harness, repositories
from tests.workflows.harness import Event, Run, World
from tests.workflows.projects import PURE, Job, call, ran, say, told
from tests.workflows.repositories import Repository
from tests.workflows.test_documents import EXAMPLES, KEYS

pytestmark = pytest.mark.slow

ALPHA, BETA = "alpha/fatwheel.yml", "beta/fatwheel.yml"
ALPHA_WHEEL, BETA_WHEEL = "alpha-1.0-py3-none-any.whl", "beta-1.0-py3-none-any.whl"
BOTH = [{"config": ALPHA, "artifacts": "fatwheel-alpha"}, {"config": BETA, "artifacts": "fatwheel-beta"}]
PAGE = [text for name, text in EXAMPLES.items() if name.startswith("release-a-monorepo")]
RELEASES = "${{ fromJSON(needs.wheels.outputs.releases) }}"
IF_ANY = "${{ needs.wheels.outputs.releases != '[]' }}"


def project(name: str, tag: str, version: str = "1.0") -> dict[str, str]:
    """Return the files of a pure project in a folder of its name, with the template of its tag."""
    files = {path.replace("tiny", name): text.replace("tiny", name).replace('"1.0"', f'"{version}"')
             for path, text in PURE.items()}  # fmt: skip
    files["fatwheel.yml"] = f'release: {{ tag: "{tag}" }}\n{files["fatwheel.yml"]}'
    return {f"{name}/{path}": text for path, text in files.items()}


OWN_TAGS = {**project("alpha", "{name}-v{version}"), **project("beta", "beta-v{version}")}
ONE_TAG = {**project("alpha", "v{version}"), **project("beta", "v{version}")}
OTHER_VERSION = {**project("alpha", "v{version}"), **project("beta", "v{version}", "2.0")}


def release(home: Path, ours: Repository, ref: str, files: dict[str, str], *, listed: bool = True) -> Run:
    """Release both projects to one folder: by the list of their configs, or by a matrix of calls."""
    own = {"artifacts": "${{ matrix.project.artifacts }}", "to": f"dir:{home}/index"}
    if listed:
        wheels = call("wheels", "monorepo.yml", configs=f"{ALPHA} {BETA}")
        publish = of_each(call("publish", "publish.yml", needs="wheels", **own), RELEASES, IF_ANY)
        return ran(home, ours, wheels, say("tell", "wheels"), publish, event=Event.push(ref), files=files)
    wheels = of_each(call("wheels", config="${{ matrix.project.config }}", artifacts=own["artifacts"]), BOTH)
    publish = of_each(call("publish", "publish.yml", needs="wheels", **own), BOTH)
    return ran(home, ours, wheels, publish, event=Event.push(ref), files=files)


def of_each(job: Job, projects: object, condition: str = "") -> Job:
    """Return a job that is done for each of some projects, under a condition."""
    keys = {"strategy": {"fail-fast": False, "matrix": {"project": projects}}}
    keys |= {"if": condition} if condition else {}
    return job._replace(text=json.dumps({**json.loads(job.text), **keys}))


def published(home: Path) -> set[str]:
    """Return the wheels in the index."""
    return {path.name for path in (home / "index").rglob("*.whl")}


def notices(run: Run) -> list[str]:
    return sorted(one.message for one in run.annotations if one.level == "notice")


@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.long)], ids=["list", "matrix"])
def test_a_tag_releases_the_project_it_belongs_to(number: int, ours: Repository, tmp_path: Path) -> None:
    """By the workflows of the page."""
    files = {path: f"{text}  targets: ['dir:{tmp_path}/index']\n" if path.endswith("fatwheel.yml") else text
             for path, text in OWN_TAGS.items()}  # fmt: skip
    text = re.sub(r"OWNER/fatwheel/(\S+)@SHA", rf"fatwheel/fatwheel/\1@{ours.pin}", PAGE[number])
    mine = repositories.make_repository(
        tmp_path / "caller", name="me/mine", files={**files, ".github/workflows/main.yml": text}
    )
    with pypiserver(tmp_path / "pypi") as index:
        world = World(index=index.upload, index_token=PASSWORD, aws=KEYS)
        run = harness.run("main.yml", Event.push("refs/tags/alpha-v1.0"), tmp_path / "run", mine, ours, world=world)
    assert run.succeeded, run.log
    assert published(tmp_path) == {ALPHA_WHEEL}
    assert {path.name for path in (tmp_path / "pypi").glob("*.whl")} == ({ALPHA_WHEEL} if number == 0 else set())
    assert f"the tag alpha-v1.0 is of {ALPHA}, and {BETA} has nothing to release at it" in notices(run)


@pytest.mark.long
@pytest.mark.parametrize("listed", [True, False], ids=["list", "matrix"])
@pytest.mark.parametrize(
    ("ref", "files", "wheels"),
    [
        pytest.param("refs/tags/beta-v1.0", OWN_TAGS, {BETA_WHEEL}, id="a-tag-of-one"),
        pytest.param("refs/tags/v1.0", ONE_TAG, {ALPHA_WHEEL, BETA_WHEEL}, id="a-tag-of-both"),
        pytest.param("refs/tags/v1.0", OTHER_VERSION, {ALPHA_WHEEL}, id="a-tag-that-the-versions-tell-apart"),
    ],
)
def test_each_project_that_a_tag_is_of_is_released(
    ref: str, files: dict[str, str], wheels: set[str], ours: Repository, tmp_path: Path, *, listed: bool
) -> None:
    run = release(tmp_path, ours, ref, files, listed=listed)
    assert run.succeeded, run.log
    assert published(tmp_path) == wheels


@pytest.mark.long
@pytest.mark.parametrize("listed", [True, False], ids=["list", "matrix"])
def test_a_tag_of_none_is_refused_by_each(ours: Repository, tmp_path: Path, *, listed: bool) -> None:
    run = release(tmp_path, ours, "refs/tags/gamma-v1.0", OWN_TAGS, listed=listed)
    assert (run.succeeded, published(tmp_path)) == (False, set())
    said = {one.message.partition(",")[0] for one in run.annotations}
    assert {f"'gamma-v1.0' is not a tag of {name} 1.0" for name in ("alpha", "beta")} <= said


@pytest.mark.long
def test_a_commit_without_a_tag_builds_both_and_publishes_none(ours: Repository, tmp_path: Path) -> None:
    run = release(tmp_path, ours, "refs/heads/main", OWN_TAGS)
    assert (run.succeeded, published(tmp_path)) == (True, set()), run.log
    outputs = told(run)
    assert [one["package"] for one in json.loads(outputs["built"])] == ["alpha", "beta"]
    assert (outputs["releases"], outputs["pypi"]) == ("[]", "[]")


@pytest.mark.long
def test_one_project_that_fails_holds_the_other_back_where_all_are_needed(ours: Repository, tmp_path: Path) -> None:
    """Published apart they would be by `if: !cancelled()`, which act does not obey after a call that failed."""
    broken = {**ONE_TAG, BETA: ONE_TAG[BETA].replace("linux-cpu", "linux-cpo")}
    run = release(tmp_path, ours, "refs/tags/v1.0", broken)
    assert (run.succeeded, published(tmp_path)) == (False, set())
    assert {path.name for path in run.artifacts.iterdir()} >= {"fatwheel-alpha-outputs", "fatwheel-alpha-release"}
