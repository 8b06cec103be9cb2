"""The commands of a config: which of the source's scripts they run, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.build import builder
from ci_tools.build.toolchain import Toolchain
from ci_tools.config.commands import resolve_script, script_of
from ci_tools.errors import InputError
from ci_tools.plan import plan_file
from tests.builders.sources import CONFIG, demo, plan_of

BEFORE = f"{CONFIG}build:\n  before:\n    - "
SCRIPTS = {"tools/prepare.sh": "", "tools/version.py": "", "packaging/make.sh": ""}


@pytest.mark.parametrize(
    ("command", "script"),
    [
        pytest.param("bash tools/prepare.sh --all", "tools/prepare.sh", id="a-shell's"),
        pytest.param("python tools/version.py", "tools/version.py", id="python's"),
        pytest.param("./tools/prepare.sh", "tools/prepare.sh", id="by-itself"),
        pytest.param("tools/generate", "tools/generate", id="by-its-path"),
        pytest.param("prepare.sh", "prepare.sh", id="at-the-root"),
        pytest.param("python -m build_helper", "", id="a-module"),
        pytest.param("bash -c 'echo a.sh'", "", id="a-line-of-shell"),
        pytest.param("make -f tools/rules.mk", "", id="another-program"),
        pytest.param("/usr/bin/env bash x.sh", "", id="a-program-of-the-machine"),
        pytest.param("python", "", id="nothing-to-run"),
    ],
)
def test_a_command_runs_a_script_of_the_source(command: str, script: str) -> None:
    assert script_of(command) == script


def test_a_script_is_found_from_anywhere(tmp_path: Path) -> None:
    demo(tmp_path, SCRIPTS)
    assert resolve_script("bash ./tools/prepare.sh tools/prepare.sh", tmp_path) == [
        "bash", str(tmp_path / "tools/prepare.sh"), "tools/prepare.sh",
    ]  # fmt: skip
    assert resolve_script("bash other.sh", tmp_path) == ["bash", "other.sh"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param("bash tools/prepar.sh", 'tools/prepar.sh, .* did you mean "tools/prepare.sh"', id="misspelt"),
        pytest.param("bash prepare.sh", 'prepare.sh, .* did you mean "tools/prepare.sh"', id="in-another-folder"),
        pytest.param(
            "bash zzzzzzzzzzzzz.sh",
            "zzzzzzzzzzzzz.sh, .* known: packaging/make.sh, tools/prepare.sh",
            id="nothing-like-it",
        ),
        pytest.param("tools/generate", "tools/generate, which the source does not have$", id="none-of-that-kind"),
        pytest.param("bash ignored.sh", "ignored.sh, which is not in the source: git ignores it", id="ignored"),
    ],
)
def test_a_script_that_the_source_lacks_is_an_error_with_its_line(tmp_path: Path, command: str, said: str) -> None:
    demo(tmp_path / "demo", {**SCRIPTS, "fatwheel.yml": f"{BEFORE}bash tools/prepare.sh\n    - {command}\n"})
    if "ignored" in command:
        (tmp_path / "demo/ignored.sh").touch()
        include = "source:\n  include: [demo.py, tools, pyproject.toml]\n"
        (tmp_path / "demo/fatwheel.yml").write_text(f"{BEFORE}bash tools/prepare.sh\n    - {command}\n{include}")
    with pytest.raises(InputError, match=rf"^fatwheel.yml:8: build.before runs {said}"):
        plan_of(tmp_path / "demo")


def test_a_validation_s_script_is_looked_for_as_well(tmp_path: Path) -> None:
    config = f"{CONFIG}validate:\n  commands:\n    - python tools/versio.py\n"
    demo(tmp_path / "demo", {**SCRIPTS, "fatwheel.yml": config})
    with pytest.raises(InputError, match=r'fatwheel.yml:7:7: this runs "tools/versio.py", .*"tools/version.py"'):
        plan_of(tmp_path / "demo")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param("before: tools/prepare.sh", "expected a list of command lines", id="text"),
        pytest.param("before: []", "this is empty, expected a list of command lines", id="empty"),
        pytest.param("after: [1]", "1 is not allowed, expected a command line such as", id="number"),
        pytest.param("after: ['echo \"x']", "this is not a command: no closing quotation", id="quotes"),
        pytest.param("befor: [make]", 'unknown key "befor", did you mean "before"', id="misspelt"),
    ],
)
def test_what_is_no_list_of_commands_is_refused(tmp_path: Path, lines: str, said: str) -> None:
    demo(tmp_path / "demo", {"fatwheel.yml": f"{CONFIG}build:\n  {lines}\n"})
    with pytest.raises(InputError, match=rf"fatwheel.yml:6:\d+: {said}|fatwheel.yml:6:\d+: .*{said}"):
        plan_of(tmp_path / "demo")


def test_a_plan_says_what_it_cannot_see_and_holds_every_command(tmp_path: Path) -> None:
    plan = plan_of(
        demo(tmp_path / "demo", {**SCRIPTS, "fatwheel.yml": f"{BEFORE}bash tools/prepare.sh\n  after: [ls]"})
    )
    warning = next(warning for warning in plan.warnings if "build." in warning)
    assert warning.startswith("build.before (fatwheel.yml:7) runs before the build and can change what is compiled; ")
    build = plan_file.to_json(plan)["request"]["build"]
    assert build["before"] == [{"run": "bash tools/prepare.sh", "where": "fatwheel.yml:7"}]
    assert build["after"] == [{"run": "ls", "where": "fatwheel.yml:8"}]


def test_commands_are_part_of_what_a_wheel_depends_on(tmp_path: Path) -> None:
    tools = Toolchain(identity="none", python=tmp_path)
    keys = set()
    for index, lines in enumerate(
        ("", "build: {before: [ls]}\n", "build: {before: [pwd]}\n", "build: {after: [ls]}\n")
    ):
        plan = plan_of(demo(tmp_path / str(index), {"fatwheel.yml": CONFIG + lines}))
        keys.add(builder.build_key(plan, plan.jobs[0], tools))
    assert len(keys) == 4


def test_a_changed_script_is_another_source(tmp_path: Path) -> None:
    hashes = set()
    for index, script in enumerate(("true\n", "false\n")):
        files = {"fatwheel.yml": f"{BEFORE}bash p.sh\n", "p.sh": script}
        hashes.add(plan_of(demo(tmp_path / str(index), files)).pins.source_sha256)
    assert len(hashes) == 2
