"""Rehearsals of whole checkouts, by the plans of their configs: a monorepo, versions from tags, platforms apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ci_tools
from ci_tools.cli.foretold import Foreteller
from ci_tools.doctor.files import read_checkout
from ci_tools.doctor.rehearsal import rehearse as rehearsing
from ci_tools.doctor.rehearsal.events import Asked
from ci_tools.doctor.rehearsal.rehearse import to_json
from ci_tools.errors import InputError
from tests.builders.sources import committed, git, write
from tests.builders.tagged import CONFIG, TOOLS, commit, tagged_world
from tests.workflows.projects import NATIVE

pytestmark = pytest.mark.slow

OURS = "fatwheel/fatwheel/.github/workflows"
PIN = f"@v{ci_tools.__version__}"
SIGNS = "permissions: { contents: read, id-token: write, attestations: write }"
PYPROJECT = """\
[build-system]
requires = ["flit_core>=3.9"]
build-backend = "flit_core.buildapi"
[project]
name = "NAME"
version = "1.2"
description = "Tiny."
requires-python = ">=3.10"
"""
EACH = """\
package: NAME
python: ["3.12"]
release: { tag: "{name}-v{version}" }
platforms: { linux-cpu: }
publish: { pypi: wheels, targets: ["s3://wheels/whl"] }
"""
MONOREPO = f"""\
on: {{ push: {{ tags: ["alpha-v*", "beta-v*"] }}, pull_request: , schedule: [{{ cron: "1 2 * * *" }}] }}
jobs:
  wheels:
    strategy: {{ matrix: {{ project: [alpha, beta] }} }}
    uses: {OURS}/wheels.yml{PIN}
    {SIGNS}
    with: {{ config: "${{{{ matrix.project }}}}/fatwheel.yml", artifacts: "fatwheel-${{{{ matrix.project }}}}" }}
  publish:
    needs: wheels
    if: github.event_name != 'pull_request'
    strategy: {{ matrix: {{ project: [alpha, beta] }} }}
    uses: {OURS}/publish.yml{PIN}
    permissions: {{ attestations: read, id-token: write }}
    with: {{ artifacts: "fatwheel-${{{{ matrix.project }}}}", upload-to-pypi: true }}
  far:
    uses: {OURS}/platform.yml@0123456789012345678901234567890123456789
"""
SIMPLE = f"""\
on: {{ push: {{ tags: ["v*"], branches: [main] }} }}
jobs:
  wheels: {{ uses: {OURS}/wheels.yml{PIN}, {SIGNS} }}
  publish:
    needs: wheels
    uses: {OURS}/publish.yml{PIN}
    if: needs.wheels.outputs.channel != 'none'
    with: {{ to: "s3://wheels/whl" }}
"""


@pytest.fixture(scope="module")
def monorepo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {".github/workflows/release.yml": MONOREPO}
    for name in ("alpha", "beta"):
        files |= {f"{name}/pyproject.toml": PYPROJECT.replace("NAME", name), f"{name}/{name}.py": ""}
        files |= {f"{name}/fatwheel.yml": EACH.replace("NAME", name)}
    folder = write(tmp_path_factory.mktemp("mono") / "it", files)
    committed(folder)
    return folder


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project one commit after its tag v1.2.0, from which hatch-vcs takes the version."""
    folder = tmp_path_factory.mktemp("tagged") / "it"
    files = {"demo/__init__.py": "", "fatwheel.yml": CONFIG, ".github/workflows/r.yml": SIMPLE, **TOOLS["hatch-vcs"][0]}
    git(write(folder, files), "init", "--quiet")
    commit(folder, "demo/first.py")
    git(folder, "tag", "v1.2.0")
    commit(folder, "demo/second.py")
    return folder


def rehearse(folder: Path, event: str) -> list[dict[str, Any]]:
    """Return the jobs of the one run of an event."""
    outside = tagged_world(folder.parent / "outside")
    known = read_checkout(folder, None, outside.environ)
    found = to_json(rehearsing.rehearse(known, Foreteller(folder, outside, {}).foretell, Asked.from_words(event, ())))
    ((run,),) = (event["runs"] for event in found["events"])
    return list(run["jobs"])


def published(jobs: list[dict[str, Any]]) -> dict[str, tuple[str, str, str]]:
    return {job["job"]: tuple(job["publishes"][0].values()) for job in jobs if job["publishes"]}


def test_a_tag_of_one_project_builds_and_publishes_that_project(monorepo: Path) -> None:
    jobs = rehearse(monorepo, "tag:alpha-v1.2")
    builds = {job["job"]: job["runs"] for job in jobs if job["job"].endswith("/ build")}
    assert builds == {"wheels (alpha) / build": True, "wheels (beta) / build": False}
    assert published(jobs) == {
        "publish (alpha) / publish": ("alpha 1.2, 2 files", "s3://wheels/whl pypi", "stable"),
        "publish (beta) / publish": ("nothing: the tag is of alpha/fatwheel.yml", "", "none"),
    }


def test_it_is_known_of_every_job_of_a_project_that_the_tag_is_not_of_that_it_does_not_build(monorepo: Path) -> None:
    jobs = [job for job in rehearse(monorepo, "tag:alpha-v1.2") if job["job"].startswith("wheels (beta) / ")]
    unknown = [job["job"] for job in jobs if job["runs"] is None]
    assert (len(jobs) > 1, unknown) == (True, [])


def test_a_candidate_goes_to_the_channel_test_and_not_to_pypi(monorepo: Path) -> None:
    jobs = rehearse(monorepo, "candidate:alpha-v1.2-rc1")
    assert published(jobs)["publish (alpha) / publish"] == ("alpha 1.2, 2 files", "s3://wheels/whl", "test")


def test_a_cron_is_a_nightly_of_each(monorepo: Path) -> None:
    found = published(rehearse(monorepo, "cron"))
    assert [(to, channel) for _, to, channel in found.values()] == [("s3://wheels/whl", "nightly")] * 2
    assert all(".dev" in what for what, _, _ in found.values())


def test_a_fork_builds_signs_nothing_and_publishes_nothing(monorepo: Path) -> None:
    jobs = rehearse(monorepo, "fork")
    assert [job["runs"] for job in jobs if job["job"].endswith("/ attest")] == [False, False]
    assert (published(jobs), {"write"} & {one for job in jobs for one in (job["rights"] or {}).values()}) == ({}, set())


def test_a_workflow_at_another_pin_is_named_and_not_guessed(monorepo: Path) -> None:
    (far,) = (job for job in rehearse(monorepo, "tag:beta-v1.2") if job["job"] == "far")
    assert far["calls"] == f"{OURS}/platform.yml@0123456789012345678901234567890123456789"


VERSIONS = {
    "push": [],
    "tag:v1.3.0": [("demo 1.3.0, 2 files", "s3://wheels/whl", "stable")],
    "candidate": [("demo 1.2.1, 2 files", "s3://wheels/whl", "test")],
}


@pytest.mark.parametrize(("event", "expected"), VERSIONS.items(), ids=VERSIONS)
def test_a_version_of_tags_is_that_of_the_tag(event: str, expected: list[tuple[str, ...]], tagged: Path) -> None:
    publish = rehearse(tagged, event)[-1]
    assert (publish["runs"], [tuple(one.values()) for one in publish["publishes"]]) == (bool(expected), expected)


def test_a_platform_of_a_team_runs_by_its_own_workflow(tmp_path: Path) -> None:
    config = NATIVE["fatwheel.yml"].replace("    native:", "    own-workflow: true\n    native:")
    call = f"on: push\njobs:\n  speed: {{ uses: {OURS}/platform.yml{PIN}, with: {{ platform: linux-cpu }} }}\n"
    files = {**NATIVE, "fatwheel.yml": config, ".github/workflows/speed.yml": call}
    committed(write(tmp_path / "it", files))
    jobs = rehearse(tmp_path / "it", "push")
    assert [job["row"]["name"] for job in jobs if job["job"] == "speed / wheels / build"] == ["linux-cpu-cp312"]


def test_recipes_are_all_that_they_ask_for_where_it_is_open_what_is_due(tmp_path: Path) -> None:
    call = (
        f"on: push\njobs:\n  it: {{ uses: {OURS}/recipes.yml{PIN}, with: {{ recipes: flash-attn, python: '3.12' }} }}\n"
    )
    committed(write(tmp_path / "it", {".github/workflows/recipes.yml": call}))
    git(tmp_path / "it", "remote", "add", "origin", "https://github.com/me/wheels")
    jobs = rehearse(tmp_path / "it", "push")
    (build,) = (job for job in jobs if job["job"] == "it / build")
    assert (build["runs"], build["row"]["tag"].startswith("flash-attn")) == (None, True)
    assert published(jobs)["it / publish"][1:] == ("github:me/wheels", "stable")


def test_a_config_with_a_mistake_ends_with_one_sentence(tmp_path: Path) -> None:
    files = {".github/workflows/r.yml": SIMPLE, "fatwheel.yml": "pakage: demo\n", "pyproject.toml": PYPROJECT}
    committed(write(tmp_path / "it", files))
    with pytest.raises(InputError, match='did you mean "package"'):
        rehearse(tmp_path / "it", "push")
