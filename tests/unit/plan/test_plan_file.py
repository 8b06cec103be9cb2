from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ci_tools.cli.main import main
from ci_tools.errors import InputError
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Platform
from ci_tools.plan import make, plan_file
from tests.builders.sources import committed, demo, git, plan_of, world, write
from tests.unit.plan.test_plan_reader import PYPROJECT as CP312

CONFIG = """\
package: demo
python: ["3.12", "3.14t"]
torch: ["2.10", "2.15"]
platforms:
  linux-cuda: {owner: "@demo", native: ["*.cu"], cuda: ["13.0"], archs: ["9.0", "10.0+PTX"], runner: big, env: {A: "1"}}
  windows:
validate: {torch: "2.13.0", imports: [demo], commands: [demo]}
publish: {pypi: wheels, targets: ["dir:out"]}
"""
PYPROJECT = CP312.replace("cp312", "py3")
FILES = {"fatwheel.yml": CONFIG, "pyproject.toml": PYPROJECT, "a.cu": "#include <torch/extension.h>\n"}
NATIVE = "linux-cuda-cu130-torch2.10-cp312"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(demo(tmp_path / "a", {**FILES, "pyproject.toml": CP312}))


# ---------------------------------------------------------------- the contract


def test_a_plan_has_the_keys_that_users_script_against(plan: Plan) -> None:
    found = plan_file.to_json(plan)
    contract = {"schema", "request", "cells", "jobs", "covered", "skipped", "warnings", "validate", "publish"}
    assert contract <= found.keys()
    assert (found["schema"], found["cells"]) == (1, 8)
    assert found["cells"] == len(found["covered"]) + len(found["skipped"])


def test_a_native_job_says_all_that_a_runner_needs(plan: Plan) -> None:
    job = next(job for job in plan_file.to_json(plan)["jobs"] if job["kind"] == "native")
    assert job == {
        "name": NATIVE,
        "kind": "native",
        "platform": "linux-cuda",
        "python": "3.12",
        "python_stays": True,
        "torch": "2.10",
        "accelerator": {"kind": "cuda", "version": "13.0", "label": "cu130", "archs": ["9.0", "10.0+PTX"]},
        "runner": "big",
        "container": "pytorch/manylinux2_28-builder:cpu",
        "care": {"free_disk": False, "swap_gib": 0, "job_memory_gib": None},
        "batch": "",
        "shards": 1,
        "minutes": 300,
        "owner": "@demo",
        "required": False,
        "local": "cu130torch2.10",
        "wheel_platform": "manylinux_2_28_x86_64",
        "requires_torch": ">=2.10,<2.11",
        "wheel": "demo-1.0+cu130torch2.10-cp312-cp312-manylinux_2_28_x86_64.whl",
        "public": None,
        "folder": "cu130torch2.10",
        "also": [],
        "toolchain": "auto",
        "env": {"A": "1"},
        "build_requires": [],
        "drops": [],
        "exact_torch": None,
        "libraries": None,
        "members": None,
        "spared": {},
        "covers": ["linux-cuda / cu130 / torch2.10 / cp312"],
    }


def test_a_pure_job_has_no_platform_and_no_accelerator(plan: Plan) -> None:
    job = plan_file.to_json(plan)["jobs"][0]
    assert (job["name"], job["kind"], job["wheel"]) == ("pure", "pure", "demo-1.0-py3-none-any.whl")
    assert (job["platform"], job["accelerator"], job["torch"], job["owner"]) == (None, None, None, None)


def test_every_cell_says_its_job_or_why_it_has_none(plan: Plan) -> None:
    found = plan_file.to_json(plan)
    jobs = {job["name"]: job["covers"] for job in found["jobs"]}
    assert all(item["cell"] in jobs[item["job"]] and item["reason"] for item in found["covered"])
    assert {item["cell"]: item["reason"] for item in found["skipped"]} == {
        "linux-cuda / cu130 / torch2.15 / cp312": "the catalog has no such torch for this accelerator",
        "linux-cuda / cu130 / torch2.15 / cp314t": "the catalog has no such torch for this accelerator",
    }


def test_every_site_says_what_is_tried_there(plan: Plan) -> None:
    sites = plan_file.to_json(plan)["validate"]
    assert {site["job"] for site in sites} == {"sdist", *(job.name for job in plan.jobs)}
    assert sites[1] == {
        "name": "pure on windows-2025, Python 3.12",
        "job": "pure",
        "files": ["demo-1.0-py3-none-any.whl"],
        "platforms": ["windows"],
        "python": "3.12",
        "runner": "windows-2025",
        "gpu": False,
        "torch": "2.13.0",
        "torch_index": None,
        "requires": [],
        "imports": ["demo"],
        "commands": [{"run": "demo", "needs_gpu": False}],
        "timeout_seconds": 600,
        "gpu_trial": "optional",
    }


@pytest.mark.parametrize(
    ("route", "files"),
    [
        pytest.param("wheels", ["demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz"], id="wheels-without-a-label"),
        pytest.param("none", None, id="nothing"),
    ],
)
def test_pypi_gets_what_its_route_says(tmp_path: Path, route: str, files: list[str] | None) -> None:
    plan = plan_of(
        demo(tmp_path / "a", {**FILES, "fatwheel.yml": CONFIG.replace("pypi: wheels", f"pypi: {route}")}), tag="v1.0"
    )
    published = {item["target"]: item["files"] for item in plan_file.to_json(plan)["publish"]}
    assert published.get("pypi") == files
    assert published["dir:out"] == [*(job.wheel for job in plan.jobs), "demo-1.0.tar.gz"]


def test_a_plan_is_json_that_reads_back(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(plan_file.dumps(plan), encoding="utf-8")
    assert plan_file.read(path) == plan_file.to_json(plan) == json.loads(plan_file.dumps(plan))


def test_two_checkouts_make_the_same_bytes(tmp_path: Path) -> None:
    committed(demo(tmp_path / "one", FILES))
    (tmp_path / "elsewhere/deep").mkdir(parents=True)
    git(tmp_path, "clone", "--quiet", "one", "elsewhere/deep/two")
    one, two = (plan_file.dumps(plan_of(tmp_path / name)) for name in ("one", "elsewhere/deep/two"))
    assert one == two
    assert str(tmp_path) not in one


def test_one_platform_can_be_shown_alone(plan: Plan) -> None:
    cuda, windows = (plan_file.only(plan, platform) for platform in (Platform.LINUX_CUDA, Platform.WINDOWS))
    assert [job.name for job in windows.jobs] == ["pure"]
    assert all(job.platform is Platform.LINUX_CUDA for job in cuda.jobs)
    assert (cuda.cells, windows.cells, plan.cells) == (4, 4, 8)


# ---------------------------------------------------------------- differences


@pytest.mark.parametrize(
    ("after", "lines"),
    [
        pytest.param({"a": 1, "b": [1, {"c": "x"}]}, [], id="none"),
        pytest.param({"a": 2, "b": [1, {"c": "x"}]}, ["plan.a: 1 in the plan, 2 here"], id="value"),
        pytest.param({"a": 1, "b": [1, {"c": "y"}]}, ['plan.b[1].c: "x" in the plan, "y" here'], id="inner-value"),
        pytest.param({"a": 1, "b": [1]}, ['plan.b: [1, {"c": "x"}] in the plan, [1] here'], id="shorter-list"),
        pytest.param({"b": [1, {"c": "x"}]}, ["plan.a: 1 in the plan, null here"], id="missing-key"),
        pytest.param({"a": 1, "b": [1, {"c": "x"}], "d": 0}, ["plan.d: null in the plan, 0 here"], id="more-keys"),
        pytest.param([], ['plan: {"a": 1, "b": [1, {"c": "x"}]} in the plan, [] here'], id="another-type"),
        pytest.param({"a": "x" * 200, "b": [1, {"c": "x"}]}, [f'plan.a: 1 in the plan, "{"x" * 96}… here'], id="long"),
    ],
)
def test_differences_are_named_by_their_place(after: object, lines: list[str]) -> None:
    assert list(plan_file.differences({"a": 1, "b": [1, {"c": "x"}]}, after)) == lines


def _saved(folder: Path) -> Path:
    path = folder.parent / "plan.json"
    path.write_text(plan_file.dumps(plan_of(folder)), encoding="utf-8")
    return path


def test_a_pinned_plan_that_still_holds_is_taken(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", FILES)
    planned = make.make_plan(folder / "fatwheel.yml", world(tmp_path), pinned=_saved(folder))
    assert planned.job(NATIVE).name == NATIVE


def test_a_pinned_plan_of_another_source_is_refused(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", FILES)
    path = _saved(folder)
    write(folder, {"a.cu": "// changed\n"})
    with pytest.raises(InputError) as caught:
        make.make_plan(folder / "fatwheel.yml", world(tmp_path), pinned=path)
    said = caught.value.message.splitlines()
    assert said[0] == f"{path} is not the plan of this source:"
    assert said[1].startswith("  plan.pins.source_sha256: ")


def test_a_job_misspelt_is_refused_with_the_nearest(tmp_path: Path) -> None:
    planned = make.make_plan(demo(tmp_path / "a", FILES) / "fatwheel.yml", world(tmp_path))
    with pytest.raises(InputError, match=r'^the plan has no job "pur", did you mean "pure"\?'):
        planned.job("pur")


EDITION = {"channel": None, "candidate": None, "date": None}
GOOD: dict[str, Any] = {"schema": 1, "pins": {"commit": "0" * 40}, "edition": EDITION}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", "is not a plan: Expecting value", id="empty"),
        pytest.param("\0", "is not a plan: Expecting value", id="binary"),
        pytest.param(b"\xff", "is not a plan: 'utf-8' codec", id="not-text"),
        pytest.param("[" * 100_000, "is not a plan: it is nested too deeply", id="deep"),
        pytest.param("[]", "is not a plan of schema 1, expected what `fatwheel plan --out` writes", id="list"),
        pytest.param('{"schema": 2}', "is not a plan of schema 1", id="another-schema"),
        pytest.param('{"schema": 1}', "has no commit at pins.commit, expected 40 or 64 hex digits", id="no-pins"),
        pytest.param('{"schema": 1, "pins": []}', "has no commit at pins", id="pins-are-a-list"),
        pytest.param('{"schema": 1, "pins": {"commit": 1}}', "has no commit at pins", id="commit-is-a-number"),
        pytest.param('{"schema": 1, "pins": {"commit": "../../x"}}', "has no commit at pins", id="commit-is-a-path"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = write(tmp_path, {"plan.json": content}) / "plan.json"
    with pytest.raises(InputError) as caught:
        plan_file.read(path)
    assert caught.value.message.startswith(f"{path} {message}")


def test_a_pipe_is_no_plan(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe is not a regular file"):
        plan_file.read(tmp_path / "pipe")


def test_wheels_without_a_plan_are_said_to_be_others_and_how_to_publish_them(tmp_path: Path) -> None:
    for name in ("a-1.0-py3-none-any.whl", "b-1.0.tar.gz"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"has a-1\.0-py3-none-any\.whl and 1 more, and no plan\.json") as refused:
        plan_file.read(tmp_path / "plan.json")
    assert "fatwheel index add" in refused.value.hint


def test_a_plan_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no .*plan\.json, expected the plan of what was built"):
        plan_file.read(tmp_path / "plan.json")


# ---------------------------------------------------------------- the command line


def test_the_command_line_prints_the_plan_alone_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = demo(tmp_path / "a", FILES)
    out = tmp_path / "out/plan.json"
    assert main(["plan", str(folder / "fatwheel.yml"), "--format", "json", "--out", str(out)]) == 0
    stdout = capsys.readouterr().out
    assert stdout == out.read_text(encoding="utf-8") == plan_file.dumps(plan_of(folder))


def test_a_misspelt_platform_is_told_the_nearest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(demo(tmp_path / "a", FILES) / "fatwheel.yml"), "--only", "linux-cudda"]) == 2
    said = 'fatwheel: the request has no platform "linux-cudda", did you mean "linux-cuda"?'
    assert capsys.readouterr().err.startswith(said)


def test_a_build_of_another_plan_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = demo(tmp_path / "a", FILES)
    path = write(tmp_path, {"plan.json": json.dumps(GOOD)}) / "plan.json"
    options = ["--plan", str(path), "--job", "pure", "--out", str(tmp_path / "out")]
    assert main(["build", str(folder / "fatwheel.yml"), *options]) == 2
    assert capsys.readouterr().err.startswith(f"fatwheel: {path} is not the plan of this source:\n  plan.")


def test_a_plan_of_a_config_that_is_not_here_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _saved(demo(tmp_path / "a", FILES))
    monkeypatch.chdir(tmp_path / "a")
    assert str(plan_file.config_of(path)) == "fatwheel.yml"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"plan of fatwheel\.yml in its source, and there is no such file here"):
        plan_file.config_of(path)


def test_a_plan_beside_its_config_changes_no_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo(tmp_path / "a", FILES))
    assert main(["plan", "--out", "plan.json"]) == 0
    make.make_plan(Path("fatwheel.yml"), world(tmp_path), pinned=Path("plan.json"))
