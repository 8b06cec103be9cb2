"""A platform that is left to its own workflow: wheels.yml leaves it out, and platform.yml builds nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_tools.cli import pages
from ci_tools.cli.main import main
from ci_tools.index.units import CORE, is_left, units_of
from ci_tools.model.files import Outcome, Receipt, Trial, Validated
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Platform
from ci_tools.plan import matrix, plan_file
from ci_tools.publish import folder, release_plan
from tests.builders.sources import demo, plan_of, write

CONFIG = """\
package: demo
python: ["3.12"]
platforms:
  linux-cpu:
  linux-xpu: { owner: "@demo/xpu", native: ["*.cpp"], own-workflow: true }
"""
FILES = {
    "fatwheel.yml": CONFIG,
    "pyproject.toml": '[build-system]\nbuild-backend="flit_core.buildapi"\n[project]\nname="demo"\nversion="1.0"\n',
    "demo.py": "",
    "k.cpp": "int f;\n",
}
LEFT = "<code>linux-xpu</code> is left to its own workflow"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_of(demo(tmp_path / "source", FILES), tag="v1.0")


def folder_of(plan: Plan, home: Path, *names: str) -> Path:
    """Return a release folder with some files of a plan, each good."""
    jobs = {plan.sdist: "sdist", **{job.wheel: job.name for job in plan.jobs}}
    home.mkdir()
    (home / "plan.json").write_text(plan_file.dumps(plan), encoding="utf-8")
    for name in names:
        (home / name).write_bytes(jobs[name].encode())
    return home


def test_one_workflow_leaves_out_what_the_other_builds(plan: Plan) -> None:
    shared, own = plan_file.together(plan), plan_file.own(plan, Platform.LINUX_XPU)
    assert [row["jobs"] for row in matrix.builds(shared)] == ["sdist,pure"]
    assert [row["jobs"] for row in matrix.builds(own)] == ["linux-xpu-cp312"]
    assert {row["built"] for row in matrix.sites(shared)} == {"pure"}
    assert {row["built"] for row in matrix.sites(own)} == {"linux-xpu-cp312"}


def test_the_command_line_gives_each_workflow_its_own_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(write(tmp_path / "source", FILES) / "fatwheel.yml")
    for options, expected in (((), ["sdist,pure"]), (("--only", "linux-xpu"), ["linux-xpu-cp312"])):
        assert main(["plan", config, "--untagged", "--format", "github", *options]) == 0
        outputs = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
        assert [row["jobs"] for row in json.loads(outputs["builds"])["include"]] == expected


def test_without_a_pure_wheel_the_sdist_is_held_against_one_of_its_own_run(tmp_path: Path) -> None:
    config = CONFIG.replace("linux-cpu:", 'linux-cpu: { owner: me, native: ["*.cpp"] }')
    found = plan_of(demo(tmp_path / "source", {**FILES, "fatwheel.yml": config}), tag="v1.0")
    assert matrix.builds(plan_file.together(found))[0]["jobs"] == "sdist,linux-cpu-cp312"


def test_the_page_of_a_plan_names_what_is_left(plan: Plan) -> None:
    page = pages.plan_page(plan_file.together(plan))
    assert LEFT in page
    assert "linux-xpu-cp312" not in page
    assert LEFT not in pages.plan_page(plan)


def test_a_release_is_whole_without_it_and_says_so(plan: Plan, tmp_path: Path) -> None:
    names = [plan.sdist, *(job.wheel for job in plan.jobs if not job.platform)]
    found = folder.read(folder_of(plan, tmp_path / "dist", *names))
    assert [one.name for one in found.withheld] == [CORE]  # the files have no receipts here
    page = pages.release_page(found)
    assert LEFT in page
    assert "linux-xpu-cp312" not in page


def test_publishing_skips_it_unless_it_was_built_here_or_is_asked_for(plan: Plan, tmp_path: Path) -> None:
    known = release_plan.read(folder_of(plan, tmp_path / "dist") / "plan.json")
    wheel = next(job.wheel for job in plan.jobs if job.platform)
    assert is_left("linux-xpu", known, {plan.sdist})
    assert not is_left("linux-xpu", known, {wheel})
    files = {name: (tmp_path / name, good(plan, name)) for name in (plan.sdist, plan.jobs[0].wheel)}
    units, withheld = units_of(known, files)
    assert ([unit.name for unit in units], withheld) == ([CORE], ())


def good(plan: Plan, name: str) -> Receipt:
    job = "sdist" if name == plan.sdist else plan.jobs[0].name
    tried = (Validated("here", "k", (Trial("import demo", Outcome.PASSED),)),)
    return Receipt(
        file=name, sha256="0" * 64, size=1, project="demo", version="1.0", job=job,
        source=plan.pins.source_sha256, key="k", seconds=1.0, audited=True, validated=tried,
    )  # fmt: skip


def test_a_required_platform_has_no_workflow_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = CONFIG.replace("own-workflow: true", "own-workflow: true, required: true")
    path = write(tmp_path / "source", {**FILES, "fatwheel.yml": config}) / "fatwheel.yml"
    assert main(["plan", str(path)]) == 2
    assert "5:69: a release waits for a required platform, which no other workflow can build" in capsys.readouterr().err
