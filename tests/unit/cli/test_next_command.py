"""A run of a person's verb ends with the command that comes next; a workflow and a program hear nothing of it."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest

from ci_tools.cli.dispatch import parse
from ci_tools.cli.main import main
from ci_tools.cli.next_command import (
    after_audit,
    after_build,
    after_doctor,
    after_plan,
    after_publication,
    after_validation,
)
from ci_tools.doctor.check import Checked
from ci_tools.doctor.report import DoctorFinding, Fix, Kind, Weight
from ci_tools.index.units import Published
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.python import find
from ci_tools.machine.runner import host
from ci_tools.plan.make import Planned, make_plan
from ci_tools.publish.transaction import Shown
from tests.builders.sources import demo, plan_of

PURE = "package: demo\npython: ['3.10', '3.11']\nplatforms: {linux-cpu: , windows: }\n"
OWNED = "{owner: '@me', native: ['*.cpp']}"
THERE = {"linux-x86_64": "macos-arm64"}.get(host(), "linux-cpu")  # a platform of another machine
NATIVE = {"linux-x86_64": "linux-cpu", "linux-aarch64": "linux-aarch64"}.get(host(), "macos-arm64")
PYPROJECT = """\
[build-system]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1.0"
"""
HERE = partial(find, environ=os.environ)
NO_CMAKE = "[tool.scikit-build]\nwheel.cmake = false\n"


def planned(folder: Path, config: str, pyproject: str = PYPROJECT) -> Planned:
    demo(folder, {"fatwheel.yml": config, "pyproject.toml": pyproject, "a.cpp": "int a;\n"})
    outside = Outside(environ=os.environ, cache=folder / "cache", reporter=Silent())
    return make_plan(folder / "fatwheel.yml", outside)


def config_of(platforms: str, more: str = "") -> str:
    return f"package: demo\npython: ['3.11']\nplatforms: {{{platforms}}}\n{more}"


@pytest.mark.parametrize(
    ("config", "line", "expected"),
    [
        pytest.param(PURE, "plan", "fatwheel release --to dir:dist/index", id="pure"),
        pytest.param(PURE, "plan --nightly 20261121 --torch 2.10",
                     "fatwheel release --torch 2.10 --nightly 20261121 --to dir:dist/index", id="an-edition"),
        pytest.param(PURE, "plan --only windows", "fatwheel build --job pure --out dist", id="one-platform"),
        pytest.param(config_of(f"{NATIVE}: {OWNED}, {THERE}: {OWNED}"), "plan",
                     "fatwheel release --to dir:dist/index --here", id="another-machine-too"),
        pytest.param(config_of(f"{THERE}: {OWNED}"), "plan",
                     f"see Fatwheel's docs/how-to/build-on-several-machines.md: this {host()} can build no job",
                     id="another-machine-only"),
        pytest.param(config_of(f"{NATIVE}: {{native: ['*.cpp']}}"), "plan",
                     "answer the 1 warning, then fatwheel release --to dir:dist/index", id="a-warning"),
    ],
)  # fmt: skip
def test_a_plan_is_followed_by_what_builds_it(tmp_path: Path, config: str, line: str, expected: str) -> None:
    pyproject = PYPROJECT + (NO_CMAKE if config == PURE else "")
    assert after_plan(planned(tmp_path, config, pyproject), parse(line.split()), HERE) == f"next: {expected}"


def test_a_python_that_is_not_here_leaves_its_jobs_out(tmp_path: Path) -> None:
    here, other = "{}.{}".format(*sys.version_info), "3.14" if sys.version_info < (3, 14) else "3.13"
    made = planned(tmp_path, config_of(f"{NATIVE}: {OWNED}").replace("'3.11'", f"'{here}', '{other}'"))
    environ = {"PATH": "", "PYENV_ROOT": str(tmp_path)}
    assert (
        after_plan(made, parse(["plan"]), partial(find, environ=environ))
        == "next: fatwheel release --to dir:dist/index --here"
    )


def test_a_config_is_named_again_as_a_shell_takes_it(tmp_path: Path) -> None:
    made = planned(tmp_path, PURE, PYPROJECT + NO_CMAKE)
    line = after_plan(made, parse(["plan", "my project/fatwheel.yml"]), HERE)
    assert line == "next: fatwheel release 'my project/fatwheel.yml' --to dir:dist/index"


def test_a_plan_without_a_job_is_followed_by_a_change(tmp_path: Path) -> None:
    made = planned(tmp_path, PURE, PYPROJECT + 'requires-python = ">=3.13"\n' + NO_CMAKE)
    assert made.plan.jobs == ()
    said = after_plan(made, parse(["plan"]), HERE)
    assert said == "next: change what the reasons name, then run `fatwheel plan` again"


@pytest.mark.parametrize(("form", "is_said"), [("table", True), ("json", False), ("github", False)])
def test_only_the_table_of_a_plan_ends_with_it(
    tmp_path: Path,
    form: str,
    is_said: bool,  # noqa: FBT001 - a parameter
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = demo(tmp_path, {"fatwheel.yml": PURE, "pyproject.toml": PYPROJECT + NO_CMAKE})
    assert main(["plan", str(folder / "fatwheel.yml"), "--format", form]) == 0
    assert ("next: " in capsys.readouterr().out) is is_said


def test_a_workflow_is_told_no_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    folder = demo(tmp_path, {"fatwheel.yml": PURE, "pyproject.toml": PYPROJECT + NO_CMAKE})
    assert main(["plan", str(folder / "fatwheel.yml")]) == 0
    assert "next: " not in capsys.readouterr().out


def test_a_build_says_what_it_made_what_it_kept_and_what_is_left(tmp_path: Path) -> None:
    plan = plan_of(demo(tmp_path, {"fatwheel.yml": PURE, "pyproject.toml": PYPROJECT + NO_CMAKE}))
    wheel = Path("out/demo-1.0-py3-none-any.whl")
    assert after_build({wheel: True}, ["pure"], plan, Path("out")) == [
        "1 file built, in out; not built: sdist",
        "next: fatwheel audit --plan out/plan.json",
    ]
    first, _ = after_build({wheel: False, Path("out/demo-1.0.tar.gz"): True}, ["sdist", "pure"], plan, Path("out"))
    assert first == "1 file built, 1 kept, in out"


def test_good_wheels_are_tried_and_bad_ones_are_explained() -> None:
    wheels = [Path(f"dist/a{number}.whl") for number in range(4)]
    assert after_audit(wheels, Path("fatwheel.yml"), is_good=True) == (
        "next: fatwheel validate dist/*.whl --config fatwheel.yml"
    )
    assert after_audit(wheels[:1], None, is_good=True) == "next: fatwheel validate dist/a0.whl"
    assert after_audit([Path("a.tar.gz")], None, is_good=True) == ""
    said = after_audit(wheels, None, is_good=False)
    assert said == "next: see Fatwheel's docs/reference/audit-rules.md, and build again"


def test_tried_wheels_are_published_with_their_plan_or_added_without_one(tmp_path: Path) -> None:
    wheels = [tmp_path / "a.whl"]
    assert after_validation(wheels) == f"next: fatwheel index add dir:index {wheels[0]} --dry-run"
    (tmp_path / "plan.json").touch()
    assert after_validation(wheels) == f"next: fatwheel publish {tmp_path} --to dir:{tmp_path}/index --dry-run"


def test_what_is_published_can_be_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = (Published("my_demo-1.0.tar.gz", "there", new=True),)
    assert after_publication([Shown("pypi", files)]) == ""
    assert after_publication([Shown("pypi", files), Shown("s3://b/whl", files)]) == (
        "next: fatwheel index verify s3://b/whl"
    )
    assert after_publication([Shown(f"dir:{tmp_path}/my index", files)]) == "next: fatwheel index verify 'dir:my index'"
    assert after_publication([Shown("github:a/b", files)]) == (
        "next: fatwheel index pages github:a/b my-demo --out public"
    )


def test_a_repository_is_fixed_or_checked_again() -> None:
    fixed = DoctorFinding("rule", Weight.ERROR, "a", "b", "c", "d", Fix(Kind.CREATE_ENVIRONMENT, "pypi"))
    assert after_doctor(Checked("me/demo", (), ())) == ""
    assert after_doctor(Checked("me/demo", (fixed,), ())) == "next: fatwheel doctor me/demo --fix"
    by_hand = fixed._replace(fix=None)
    said = after_doctor(Checked("me/demo", (by_hand,), ()))
    assert said == "next: do what the arrows say, then fatwheel doctor me/demo"
    assert after_doctor(Checked("me/demo", (by_hand,), (), "src")).endswith("then fatwheel doctor src")
