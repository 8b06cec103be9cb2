"""What a run says in place of the config: a torch that is added to a release of an old tag, and runners with a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.machine.storage import write_atomically
from ci_tools.model.plan import Plan
from ci_tools.model.request import GpuTrial, Run
from ci_tools.plan import make, matrix, plan_file, plan_reader
from tests.builders.sources import committed, demo, git, world
from tests.unit.plan.test_plan_file import FILES as OF_PLANS

# What is compiled for CUDA is bound to its torch; elsewhere the wheel is pure, and bound to none.
CONFIG = """\
package: demo
python: ["3.12"]
torch: ["2.10", "2.13"]
platforms:
  linux-cuda: {owner: "@demo", native: ["*.cu"], cuda: ["13.0"], archs: ["9.0"]}
  windows:
validate:
  torch: "2.13.0"
  imports: [demo]
  commands: [{run: demo --gpu, needs-gpu: true}]
publish: {pypi: wheels, pypi-cuda: "13.0"}
"""
ADDED = Run(torch=("2.14",))
WHEEL = "demo-1.0+cu130torch2.14-cp312-cp312-manylinux_2_28_x86_64.whl"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A checkout of a tag whose config names two torches, and none that came later."""
    config = CONFIG.replace(', pypi-cuda: "13.0"', "")
    folder = demo(tmp_path / "source", {**OF_PLANS, "fatwheel.yml": config})
    committed(folder)
    git(folder, "tag", "v1.0")
    return folder


def plan_of(folder: Path, run: Run = ADDED, tag: str = "") -> Plan:
    return make.make_plan(folder / "fatwheel.yml", world(folder.parent), run=run, tag=tag).plan


def test_only_the_wheels_that_are_bound_to_the_torch_are_made(source: Path) -> None:
    plan = plan_of(source)
    assert [(job.wheel, job.requires_torch) for job in plan.jobs] == [(WHEEL, ">=2.14,<2.15")]
    assert (plan.sdist, {site.job for site in plan.sites}) == (None, {plan.jobs[0].name})
    assert plan_file.pypi_files(plan) == []


def test_the_plan_says_what_was_asked_and_what_the_release_has_already(source: Path) -> None:
    plan = plan_of(source)
    assert plan_file.to_json(plan)["request"]["run"] == {"torch": ["2.14"], "gpu_runner": [], "to": [], "level": []}
    assert plan.warnings[0].startswith("this run names torch 2.14, the config 2.10, 2.13: only wheels bound to it")
    (served,) = (one for one in plan.skipped if str(one.cell.platform) == "windows")
    assert served.reason.startswith("the release has demo-1.0-py3-none-any.whl: no native code")


def test_the_edition_is_that_of_the_tag_that_is_checked_out(source: Path) -> None:
    assert str(plan_of(source).edition.channel) == "stable"
    (source / "demo.py").write_text("later = True\n")
    git(source, "commit", "--all", "--quiet", "--message", "later")
    assert plan_of(source).edition.channel is None


@pytest.mark.parametrize(
    "run",
    [ADDED, Run(to=("dir:index", "s3://bucket/whl")), Run(container=("i@sha256:1",), requires=("a==1",))],
    ids=["torch", "targets", "repeated"],
)
def test_the_same_plan_is_made_everywhere_from_the_file(run: Run, source: Path) -> None:
    path = source.parent / "plan.json"
    with write_atomically(path) as file:
        file.write(plan_file.dumps(plan_of(source, run)).encode())
    again = make.make_plan(source / "fatwheel.yml", world(source.parent), pinned=path).plan
    assert again == plan_of(source, run) == plan_reader.read(path)


def test_a_wheel_states_the_same_config_whatever_its_run_overrides(source: Path) -> None:
    other = Run(
        to=("dir:x",), gpu_runner=("linux-cuda=self-hosted,h100",), container=("i@sha256:1",), requires=("a==1",)
    )
    plain, overridden = (plan_of(source, run) for run in (Run(), other))
    assert plan_file.list_origin(plain) == plan_file.list_origin(overridden)
    assert [one.container for one in overridden.request.platforms] == ["i@sha256:1", None]


def test_the_targets_of_a_run_take_the_place_of_the_config_s(source: Path) -> None:
    text = (source / "fatwheel.yml").read_text()
    (source / "fatwheel.yml").write_text(text.replace("pypi: wheels", "pypi: wheels, targets: ['dir:mine']"))
    assert plan_of(source, Run()).request.publish.targets == ("dir:mine",)
    assert plan_of(source, Run(to=("s3://bucket/whl",))).request.publish.targets == ("s3://bucket/whl",)


def test_the_wheels_are_tried_with_a_torch_that_they_are_for(source: Path) -> None:
    assert plan_of(source).request.validate.torch == "2.14.1"
    assert plan_of(source, Run()).request.validate.torch == "2.13.0"


def test_a_wheel_that_is_added_does_not_go_to_pypi_by_the_name_of_another_torchs(source: Path) -> None:
    (source / "fatwheel.yml").write_text(CONFIG)
    assert [job.public for job in plan_of(source).jobs] == [None]


@pytest.mark.parametrize(
    ("config", "run", "message"),
    [
        pytest.param(CONFIG, Run(("2.99",)), 'there is no torch "2.99" in the catalog', id="unknown"),
        pytest.param(CONFIG.replace('torch: ["2.10", "2.13"]\n', ""), ADDED, "names no torch", id="no-torch"),
        pytest.param(CONFIG.replace("  linux-cuda:", "  #"), ADDED, "no wheel is bound to torch 2.14", id="nothing"),
        pytest.param(
            f"{CONFIG}build: {{shims: [cuda-generator]}}\n".replace('["2.10", ', "["),
            Run(("2.12", "2.15")),
            "the shim cuda-generator is not proven for torch 2.15, expected",
            id="a-torch-that-a-shim-is-not-for",
        ),
        pytest.param(CONFIG, Run(gpu_runner=("h100",)), 'has no platform "h100"', id="no-platform"),
        pytest.param(CONFIG, Run(gpu_runner=("linux-cuda=",)), "linux-cuda has no label", id="no-label"),
    ],
)
def test_what_no_run_can_ask_for_is_refused(source: Path, config: str, run: Run, message: str) -> None:
    (source / "fatwheel.yml").write_text(config.replace(', pypi-cuda: "13.0"', ""))
    with pytest.raises(InputError, match=message):
        plan_of(source, run)


# ---------------------------------------------------------------- a trial on a GPU


REQUIRED = CONFIG.replace(', pypi-cuda: "13.0"', "").replace("  imports", "  gpu: required\n  imports")


def test_a_release_that_waits_for_a_gpu_which_no_runner_has_ends_before_anything_is_built(source: Path) -> None:
    (source / "fatwheel.yml").write_text(REQUIRED)
    plan = plan_of(source, Run(), tag="v1.0")
    assert plan.request.validate.gpu_trial is GpuTrial.REQUIRED
    with pytest.raises(InputError, match=r"for linux-cuda have to be tried on a GPU .*, and no runner has one"):
        matrix.outputs(plan)


def test_a_run_can_name_the_runner(source: Path) -> None:
    (source / "fatwheel.yml").write_text(REQUIRED)
    plan = plan_of(source, Run(gpu_runner=("linux-cuda=self-hosted,h100",)), tag="v1.0")
    assert {site.runner for site in plan.sites if site.gpu} == {("self-hosted", "h100")}
    assert '"h100"' in matrix.outputs(plan)["sites"]


@pytest.mark.parametrize("tag", [pytest.param("v1.0-rc1", id="candidate"), pytest.param("", id="no-release")])
def test_a_candidate_waits_as_well_and_what_is_no_release_does_not(source: Path, tag: str) -> None:
    (source / "fatwheel.yml").write_text(REQUIRED)
    git(source, "tag", "--delete", "v1.0")
    plan = plan_of(source, Run(), tag=tag)
    if tag:
        with pytest.raises(InputError, match="no runner has one"):
            matrix.outputs(plan)
    else:
        assert matrix.outputs(plan)["channel"] == "none"


def test_a_trial_on_a_gpu_needs_a_command_that_uses_it(source: Path) -> None:
    (source / "fatwheel.yml").write_text(REQUIRED.replace("needs-gpu: true", "needs-gpu: false"))
    with pytest.raises(InputError, match="no validation command needs a GPU"):
        plan_of(source, Run())
