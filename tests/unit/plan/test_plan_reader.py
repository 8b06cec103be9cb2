from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ci_tools.errors import InputError, RejectedInput
from ci_tools.model.plan import Plan
from ci_tools.plan import plan_file, plan_reader
from tests.builders.sources import demo, plan_of

ROOT = Path(__file__).parents[3]
RICH = """\
package: demo
python: ["3.12", "3.14t"]
torch: ["2.10", "2.15"]
platforms:
  linux-cuda:
    {owner: "@demo", native: {include: ["*.cu"], exclude: [a.cu]}, cuda: ["13.0"], archs: ["9.0"], runner: [big, gpu],
     env: {A: "1"}, required: true, gpu-runner: h100}
  linux-xpu:
  windows:
build: {env: {B: "2"}, max-jobs: 3}
validate: {torch: "2.13.0", imports: [demo], commands: [demo, {run: demo gpu, needs-gpu: true}]}
publish: {pypi: wheels, pypi-cuda: "13.0", targets: ["dir:out"], variants: true}
"""
PYPROJECT = """\
[build-system]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1.0"
[tool.scikit-build]
wheel.py-api = "cp312"
wheel.cmake = false
"""
FILES = {"fatwheel.yml": RICH, "pyproject.toml": PYPROJECT, "k.cu": "#include <torch/extension.h>\n"}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return plan_of(demo(tmp_path_factory.mktemp("values") / "source", FILES))


def filed(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plan_file.dumps(plan))
    return found


def test_a_plan_comes_back_as_it_was_written(plan: Plan) -> None:
    assert plan_reader.plan_of(filed(plan)) == plan


def test_the_reference_plan_comes_back_as_it_was_written() -> None:
    reference = plan_of(ROOT / "package")
    assert plan_reader.plan_of(filed(reference)) == reference


def test_a_file_is_read(plan: Plan, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan_file.dumps(plan), encoding="utf-8")
    assert plan_reader.read(tmp_path / "plan.json") == plan


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param(lambda plan: plan.pop("jobs"), "the key 'jobs' is missing", id="no-jobs"),
        pytest.param(
            lambda plan: plan["jobs"][0].pop("wheel"), "plan.jobs[0].wheel: this key is missing", id="no-wheel"
        ),
        pytest.param(
            lambda plan: plan["jobs"][0].update(wheel=3),
            "plan.jobs[0].wheel: expected a text, found a whole number",
            id="a-number-for-a-name",
        ),
        pytest.param(
            lambda plan: plan["jobs"][0].update(kind="odd"),
            'plan.jobs[0].kind: "odd" is unknown, known: native, pure',
            id="no-such-kind",
        ),
        pytest.param(lambda plan: plan["jobs"][0].update(python="3"), "plan.jobs[0].python", id="no-python"),
        pytest.param(
            lambda plan: plan["jobs"][0].update(covers=["x"]),
            'plan.jobs[0]: the plan has no cell "x"',
            id="no-such-cell",
        ),
        pytest.param(
            lambda plan: plan["jobs"][0].update(libraries=[]),
            "it is not a plan: plan.jobs[0]: expected an object, found a list",
            id="a-list-for-a-mapping",
        ),
        pytest.param(
            lambda plan: plan.update(jobs=3),
            "it is not a plan: plan.jobs: expected a list, found a whole number",
            id="a-number-for-a-list",
        ),
        pytest.param(
            lambda plan: plan["covered"][0].update(accelerator="cu1"),
            'plan.covered[0]: the plan has no accelerator "cu1"',
            id="an-unasked-accelerator",
        ),
        pytest.param(
            lambda plan: plan["skipped"][0].pop("cell"), "plan.skipped[0]: the key 'cell' is missing", id="no-cell"
        ),
        pytest.param(
            lambda plan: plan["jobs"][0].update(folder="../x"),
            'plan.jobs[0].folder: found "../x", expected ""',
            id="a-folder-that-leads-out",
        ),
        pytest.param(
            lambda plan: plan["jobs"][-1].update(also=["cu999"]),
            '.also: found ["cu999"], expected []',
            id="a-folder-that-it-does-not-serve",
        ),
        pytest.param(lambda plan: plan["request"].update(pythons="3.12"), "request", id="a-text-for-a-list"),
        pytest.param(lambda plan: plan["request"]["build"].update(max_jobs="3"), "max_jobs", id="a-text-for-a-number"),
        pytest.param(lambda plan: plan["validate"][0].update(gpu=1), "plan.sites[0].gpu", id="a-number-for-a-yes"),
        pytest.param(lambda data: data["covered"][0].update(job=""), 'there is no job ""', id="no-such-job"),
        pytest.param(lambda data: data["validate"][0].update(job="x"), 'there is no job "x"', id="tries-no-such-job"),
        pytest.param(
            lambda data: data.update(sdist="../a.tar.gz"), '"../a.tar.gz" is not the name of a file', id="above"
        ),
        pytest.param(lambda data: data.update(sdist=".."), '".." is not the name of a file', id="the-folder-above"),
        pytest.param(lambda data: data.update(sdist=""), '"" is not the name of a file', id="an-empty-sdist"),
        pytest.param(
            lambda data: data["jobs"][0].update(wheel=""), '"" is not the name of a file', id="an-empty-wheel"
        ),
        pytest.param(
            lambda data: data["jobs"][0].update(name="a,b"),
            '"a,b" is not the name of a job',
            id="jobs-are-joined-by-it",
        ),
        pytest.param(
            lambda data: data["jobs"][0].update(name="sdist"),
            '"sdist" is not the name of a job',
            id="named-as-the-sdist",
        ),
        pytest.param(
            lambda data: data["jobs"][0].update(name=data["jobs"][1]["name"]), "two jobs are named", id="one-name-twice"
        ),
        pytest.param(
            lambda data: data["jobs"][0].update(wheel=data["jobs"][1]["wheel"]), "two jobs make", id="one-wheel-twice"
        ),
        pytest.param(
            lambda data: data["validate"][0].update(files=[]),
            "plan.validate[0].files: no file, expected demo-1.0.tar.gz and the wheel of a job",
            id="the-sdist's-trial-has-no-file",
        ),
        pytest.param(
            lambda data: data["validate"][0]["files"].pop(),
            "plan.validate[0].files: demo-1.0.tar.gz, expected demo-1.0.tar.gz and the wheel of a job",
            id="the-sdist's-trial-has-no-wheel",
        ),
        pytest.param(
            lambda data: data.update(sdist=None),
            "expected no trial of an sdist",
            id="a-trial-of-no-sdist",
        ),
        pytest.param(
            lambda data: data["validate"][1].update(files=["demo-1.0.tar.gz"]),
            "plan.validate[1].files: demo-1.0.tar.gz, expected what the job",
            id="a-trial-of-another's-file",
        ),
        pytest.param(lambda data: data["validate"][1].update(files=[]), "no file, expected", id="a-trial-of-no-file"),
    ],
)
def test_what_is_no_plan_of_ours_is_refused(plan: Plan, spoil: Callable[[dict[str, Any]], object], said: str) -> None:
    data = filed(plan)
    spoil(data)
    with pytest.raises(RejectedInput) as refused:
        plan_reader.plan_of(data, "some/plan.json")
    assert said in refused.value.message
    assert refused.value.message.startswith("some/plan.json: ")


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(InputError, match="is not a plan of schema 1"):
        plan_reader.read(tmp_path / "plan.json")
