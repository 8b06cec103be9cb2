"""What the plan says of the runners that it needs, and which of it no runner can give."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.cli.main import main
from ci_tools.config import loader
from ci_tools.errors import InputError
from ci_tools.machine import runner
from ci_tools.model.plan import Plan
from ci_tools.model.request import HOSTED_MINUTES, NO_CARE, Care
from ci_tools.plan import plan_file, plan_reader
from tests.builders.sources import demo, plan_of, write

# ---------------------------------------------------------------- what the plan says

CONFIG = """\
package: demo
python: ["3.12"]
platforms:
  linux-cpu: { enabled: true, owner: me, swap-gib: 32 }
  linux-aarch64: { enabled: true, owner: me, runner: [self-hosted, arm], timeout-minutes: 900 }
  macos-arm64: { enabled: true, owner: me }
  windows:
build: { free-disk: true, swap-gib: 16, job-memory-gib: 4, timeout-minutes: 90 }
"""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(demo(tmp_path / "a", {"fatwheel.yml": CONFIG}))


@pytest.mark.parametrize(
    ("name", "care", "minutes"),
    [
        pytest.param("pure", NO_CARE, 90, id="the-pure-wheel-needs-nothing"),
        pytest.param(
            "linux-cpu-cp312", Care(free_disk=True, swap_gib=32, job_memory_gib=4), 90, id="its-own-goes-first"
        ),
        pytest.param("linux-aarch64-cp312", Care(job_memory_gib=4), 900, id="a-machine-of-ones-own"),
        pytest.param("macos-arm64-cp312", Care(job_memory_gib=4), 90, id="another-system"),
    ],
)
def test_the_plan_says_what_each_job_gets(plan: Plan, name: str, care: Care, minutes: int) -> None:
    job = next(job for job in plan.jobs if job.name == name)
    assert (job.care, job.minutes) == (care, minutes)
    row = next(row for row in plan_file.to_json(plan)["jobs"] if row["name"] == name)
    assert (row["care"], row["minutes"]) == (care._asdict(), minutes)


def test_a_plan_that_is_read_again_says_the_same(plan: Plan) -> None:
    again = plan_reader.plan_of(plan_file.to_json(plan))
    assert [(job.care, job.minutes) for job in again.jobs] == [(job.care, job.minutes) for job in plan.jobs]


def test_a_job_without_a_limit_of_its_own_gets_what_one_of_its_kind_takes(tmp_path: Path) -> None:
    cuda = "{ owner: me, native: ['*.cu'], cuda: ['13.0'], archs: ['9.0'] }"
    platforms = f"{{ linux-cuda: {cuda}, windows: {{ enabled: true, owner: me }}, linux-cpu: }}"
    text = f"package: demo\npython: ['3.12']\nplatforms: {platforms}\n"
    folder = demo(tmp_path / "a", {"fatwheel.yml": text, "k.cu": "int f;\n"})
    found = {job.name: job.minutes for job in plan_of(folder).jobs}
    known = catalog.load().minutes
    assert found == {"pure": known.pure, "linux-cuda-cu130-cp312": known.accelerator, "windows-cp312": known.native}
    assert known.pure < known.native < known.accelerator < HOSTED_MINUTES


def test_the_pure_job_is_never_longer_than_a_hosted_runner_lets_it(tmp_path: Path) -> None:
    text = "package: demo\npython: ['3.12']\nplatforms: {linux-cpu: {runner: big}}\nbuild: {timeout-minutes: 900}\n"
    assert [job.minutes for job in plan_of(demo(tmp_path / "a", {"fatwheel.yml": text})).jobs] == [360]


def test_several_jobs_get_what_any_of_them_needs(plan: Plan) -> None:
    assert runner.care_of(plan, ["sdist", "linux-aarch64-cp312", "pure"]) == Care(job_memory_gib=4)
    assert runner.care_of(plan, ["pure", "linux-cpu-cp312"]) == Care(free_disk=True, swap_gib=32, job_memory_gib=4)


def test_a_job_that_the_plan_has_not_is_refused(plan: Plan) -> None:
    with pytest.raises(InputError, match='the plan has no job "linux-cpu", did you mean "linux-cpu-cp312"'):
        runner.care_of(plan, ["linux-cpu"])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("timeout-minutes: 90 }", "timeout-minutes: 361 }",
                     ["8:77: a hosted runner ends a job after 360 minutes, and builds linux-cpu, macos-arm64, windows"],
                     id="for-every-platform"),
        pytest.param("swap-gib: 32", "timeout-minutes: 361",
                     ["4:59: a hosted runner ends a job after 360 minutes, and builds linux-cpu: expected 360 or less"],
                     id="for-one-platform"),
        pytest.param("[self-hosted, arm]", "ubuntu-24.04-arm",
                     ["5:89: a hosted runner ends a job after 360 minutes, and builds linux-aarch64: expected 360"],
                     id="for-a-label-of-github"),
        pytest.param("swap-gib: 32", "swap-gib: 257",
                     ["4:52: 257 is not allowed, expected GiB of swap that a native job gets on a hosted Linux runner"],
                     id="more-swap-than-any-disk"),
        pytest.param("job-memory-gib: 4", "job-memory-gib: 0",
                     ["8:57: 0 is not allowed, expected GiB that one compiler takes at most, 1 to 1024"],
                     id="compilers-that-take-nothing"),
        pytest.param("free-disk: true", "free-disk: 40",
                     ["8:21: 40 is not allowed, expected true to remove, before a native job on a hosted Linux runner"],
                     id="a-size-to-free"),
    ],
)  # fmt: skip
def test_what_no_runner_can_give_is_refused(tmp_path: Path, old: str, new: str, expected: list[str]) -> None:
    assert old in CONFIG
    write(tmp_path, {"fatwheel.yml": CONFIG.replace(old, new)})
    with pytest.raises(InputError) as caught:
        loader.load(tmp_path / "fatwheel.yml", catalog.load())
    found = caught.value.message.replace(f"{tmp_path}/fatwheel.yml:", "").splitlines()
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize(
    "old",
    [
        pytest.param("[self-hosted, arm]", id="self-hosted"),
        pytest.param("big-arm", id="a-label-that-is-not-known"),
        pytest.param("[self-hosted, ubuntu-24.04-arm]", id="self-hosted-that-is-called-like-a-hosted-one"),
        pytest.param("ubuntu-24.04-arm, enabled: false", id="switched-off"),
    ],
)
def test_a_machine_of_ones_own_may_take_longer(tmp_path: Path, old: str) -> None:
    text = CONFIG.replace("enabled: true, owner: me, runner: [self-hosted, arm]", f"owner: me, runner: {old}")
    write(tmp_path, {"fatwheel.yml": text})
    assert loader.load(tmp_path / "fatwheel.yml", catalog.load()).platforms[1].minutes == 900


@pytest.mark.parametrize("platform", sorted(catalog.load().platforms))
def test_the_runners_of_the_catalog_are_hosted(platform: str) -> None:
    assert runner.is_hosted([catalog.load().platforms[platform].runner])  # type: ignore[index]  # sorted as text


def test_the_verb_says_that_it_leaves_this_machine_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("RUNNER_ENVIRONMENT", raising=False)
    (tmp_path / "plan.json").write_text(plan_file.dumps(plan_of(demo(tmp_path / "a", {"fatwheel.yml": CONFIG}))))
    assert main(["ci", "prepare", "--plan", str(tmp_path / "plan.json"), "--job", "linux-cpu-cp312"]) == 0
    out, err = capsys.readouterr()
    assert (out, " ".join(err.split())) == (
        "",
        "nothing is done to this machine: it is not one of GitHub's own runners (RUNNER_ENVIRONMENT is not set)",
    )


def test_the_verb_refuses_a_job_that_the_plan_has_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plan.json").write_text(plan_file.dumps(plan_of(demo(tmp_path / "a", {"fatwheel.yml": CONFIG}))))
    assert main(["ci", "prepare", "--plan", str(tmp_path / "plan.json"), "--job", "sdist,linux"]) == 2
    assert capsys.readouterr().err.startswith('fatwheel: the plan has no job "linux"')
