"""The move from test-infra: every input has a fate, nothing is guessed, and what is written loads and plans.

It stays one file, although it is long: all of it holds the move against the one page that tells of it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ci_tools import catalog
from ci_tools.cli import main as command_line
from ci_tools.config import test_infra
from ci_tools.config.calling_workflow import workflow
from ci_tools.config.test_infra import InputFate, migration
from ci_tools.config.test_infra.callers import parse_exports
from ci_tools.config.test_infra.migration import join_triggers, merge_triggers
from ci_tools.errors import InputError
from ci_tools.formats import yaml_file
from ci_tools.model.platforms import Platform
from ci_tools.model.versions import Minor
from tests.builders.sources import plan_of, request_of, write

PAGE = Path(__file__).parents[3] / "docs/how-to/move-from-test-infra.md"
LINUX = ".github/workflows/linux.yml"
OURS = ".github/workflows/wheels.yml"
PROJECT = """\
[build-system]
requires = ["flit_core>=3.9"]
build-backend = "flit_core.buildapi"
[project]
name = "tally"
version = "1.0"
requires-python = ">=3.12"
"""


def caller(
    build: str = "", matrix: str = "", *, kind: str = "linux", on: str = "workflow_dispatch", more: str = ""
) -> str:
    """Return a workflow that builds wheels by test-infra, with these inputs of the build and of its matrix."""
    indent = "\n      ".join
    return (
        f"on: {on}\njobs:\n"
        "  matrix:\n    uses: pytorch/test-infra/.github/workflows/generate_binary_build_matrix.yml@main\n"
        f"    with:\n      {indent([f'os: {kind}'] * ('os:' not in matrix) + matrix.splitlines())}\n"
        f"  build:\n    needs: matrix\n{more}"
        f"    uses: pytorch/test-infra/.github/workflows/build_wheels_{kind.partition('-')[0]}.yml@main\n"
        "    with:\n      build-matrix: ${{ needs.matrix.outputs.matrix }}\n      " + indent(build.splitlines()) + "\n"
    )


CPU = "with-cuda: disable\nwith-rocm: disable"


def project(root: Path, files: dict[str, str]) -> Path:
    return write(root / "tally", {"pyproject.toml": PROJECT, "tally.py": '"""Tally."""\n', **files})


def moved(folder: Path, *names: str) -> dict[str, test_infra.ReportLine]:
    """Move, and return the report, by the names of inputs."""
    workflows = [folder / name for name in names or (LINUX,)]
    written = migration.write_from_test_infra(folder, workflows, catalog.load(), {})
    assert [path.relative_to(folder).as_posix() for path in written.paths] == ["fatwheel.yml", OURS]
    return {row.name: row for row in written.rows}


def ours(folder: Path) -> dict[str, Any]:
    """Return the workflow that was written."""
    table = yaml_file.read(folder / OURS, OURS).value
    assert isinstance(table, dict)
    return table


# ---------------------------------------------------------------- the page


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_page_s_example_is_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given, expected = blocks("yml")
    name = ".github/workflows/build_wheels_linux.yml"
    scripts = {f"packaging/{script}": "" for script in ("prepare.sh", "check_wheel.sh", "smoke_test.py")}
    folder = project(tmp_path, {name: given, "packaging/env.sh": blocks("sh")[0], **scripts})
    monkeypatch.chdir(folder)
    migration.write_from_test_infra(Path(), [Path(name)], catalog.load(), {})
    assert (folder / "fatwheel.yml").read_text() == expected
    assert [job.name for job in plan_of(folder).jobs] == ["pure"]


def test_the_page_s_tables_name_every_input_and_secret() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    known = test_infra.load_fates()
    facts = [
        (name, str(fate), what)
        for table in ("inputs", "secrets")
        for name, (fate, what) in sorted(known[table].items())
    ]
    assert rows == facts


def test_every_input_that_is_carried_has_a_carrier() -> None:
    carried = {name for name, (fate, _) in test_infra.load_fates()["inputs"].items() if fate is InputFate.CARRIED}
    assert carried == set(test_infra.CARRIERS)


# ---------------------------------------------------------------- one input each


@pytest.mark.parametrize(
    ("build", "matrix", "name", "fate", "shown"),
    [
        pytest.param("pre-script: a.sh", CPU, "pre-script", "carried", "before:\n    - bash a.sh", id="before"),
        pytest.param("post-script: python a.py", CPU, "post-script", "carried", "- python a.py", id="a-command-line"),
        pytest.param("pre-script: b.sh", CPU, "pre-script", "needs you", "package: tally", id="no-such-script"),
        pytest.param("pre-script: a.bat", CPU, "pre-script", "needs you", "package: tally", id="batch-file"),
        pytest.param("pre-script: \"a 'b\"", CPU, "pre-script", "needs you", "package: tally", id="unbalanced"),
        pytest.param("pre-script: ''", CPU, "pre-script", "not needed", "package: tally", id="empty"),
        pytest.param("pre-script: ${{ inputs.x }}", CPU, "pre-script", "needs you", "package: tally", id="expression"),
        pytest.param("smoke-test-script: a.py", CPU, "smoke-test-script", "carried", "- python a.py", id="smoke-test"),
        pytest.param("smoke-test-script: b.py", CPU, "smoke-test-script", "not needed", "tally", id="no-smoke-test"),
        pytest.param("package-name: tally.x", CPU, "package-name", "carried", "imports: [tally.x]", id="import"),
        pytest.param("package-name: 3-d", CPU, "package-name", "needs you", "package: tally", id="no-module"),
        pytest.param("timeout: 90", CPU, "timeout", "carried", "timeout-minutes: 90", id="timeout"),
        pytest.param("timeout: long", CPU, "timeout", "needs you", "package: tally", id="no-minutes"),
        pytest.param("runner: big", CPU, "runner", "carried", "runner: big", id="runner"),
        pytest.param("runner: ubuntu-20.04", CPU, "runner", "needs you", "ubuntu-24.04 is another", id="a-runner-gone"),
        pytest.param("runner: ubuntu-24.4", CPU, "runner", "needs you", "did you mean", id="a-runner-misspelt"),
        pytest.param("build-target: lite", CPU, "build-target", "carried", 'BUILD_TARGET: "lite"', id="target"),
        pytest.param("build-command: A=1 B='x y' python -m build --wheel -vvv --no-isolation", CPU, "build-command",
                     "carried", 'A: "1"', id="variables-of-a-command"),
        pytest.param("build-command: python -m build --wheel", CPU, "build-command", "not needed", "tally", id="plain"),
        pytest.param("build-command: make wheel", CPU, "build-command", "needs you", "tally", id="another-command"),
        pytest.param("build-command: A=$B python -m build", CPU, "build-command", "needs you", "tally", id="shell"),
        pytest.param("delocate-wheel: false", CPU, "delocate-wheel", "not needed", "tally", id="delocate-not"),
        pytest.param("delocate-wheel: true", CPU, "delocate-wheel", "needs you", "tally", id="delocate"),
        pytest.param("ref: next", CPU, "ref", "carried", "package: tally", id="ref"),
        pytest.param("ref: ''", CPU, "ref", "not needed", "package: tally", id="the-run-s-own-commit"),
        pytest.param("upload-to-pypi: cpu", CPU, "upload-to-pypi", "carried", "pypi: wheels", id="pypi"),
        pytest.param("upload-to-pypi: cu130", CPU, "upload-to-pypi", "needs you", "pypi: wheels", id="no-cuda-asked"),
        pytest.param("upload-to-pypi: cu130", "", "upload-to-pypi", "carried", 'pypi-cuda: "13.0"', id="pypi-cuda"),
        pytest.param("upload-to-pypi: cu130,cu132", "", "upload-to-pypi", "needs you", '"13.0"', id="two-cuda"),
        pytest.param("", 'python-versions: \'["3.13", "3.14t"]\'', "python-versions", "carried",
                     'python: ["3.13", "3.14t"]', id="pythons"),
        pytest.param("", "python-versions: '[]'", "python-versions", "not needed", '"3.12"', id="all-pythons"),
        pytest.param("", 'python-versions: \'["3.8", "3.13"]\'', "python-versions", "needs you", '["3.13"]', id="old"),
        pytest.param("", "python-versions: 3.12", "python-versions", "needs you", '"3.12"', id="no-list"),
        pytest.param("", "package-type: libtorch", "package-type", "needs you", "tally", id="libtorch"),
        pytest.param("", "with-xpu: enable", "with-xpu", "carried", "linux-xpu:", id="xpu"),
        pytest.param("", "", "with-rocm", "carried", "linux-rocm:", id="rocm-by-default"),
        pytest.param("", "with-rocm: disable", "with-rocm", "not needed", "linux-cuda:", id="rocm-not"),
        pytest.param("", "os: linux-aarch64", "with-cuda", "carried", "linux-cuda-aarch64:", id="aarch64"),
        pytest.param("", "build-python-only: enable", "build-python-only", "not needed", '"3.12"', id="python-only"),
    ],
)  # fmt: skip
def test_an_input_has_one_fate_and_the_config_loads(
    tmp_path: Path, build: str, matrix: str, name: str, fate: str, shown: str
) -> None:
    folder = project(tmp_path, {LINUX: caller(build, matrix), "a.sh": "", "a.py": ""})
    row = moved(folder)[name]
    text = (folder / "fatwheel.yml").read_text()
    assert (str(row.fate), shown in text) == (fate, True), (row, text)
    assert (f"- {row.where}: {name}: " in text) == (fate == "needs you")
    assert plan_of(folder).jobs


@pytest.mark.parametrize(
    ("script", "pairs", "left"),
    [
        pytest.param("export A=b", [("A", "b")], 0, id="plain"),
        pytest.param("export A='x y' B=\"1;2\" # why", [("A", "x y"), ("B", "1;2")], 0, id="quoted"),
        pytest.param("export A='$x'", [("A", "$x")], 0, id="single-quotes-expand-nothing"),
        pytest.param("#!/bin/bash\nset -euxo pipefail\n\n# export A=b", [], 0, id="nothing"),
        pytest.param("export \\\n  A=b", [("A", "b")], 0, id="continued"),
        pytest.param("export A=$B", [], 1, id="another-variable"),
        pytest.param("export A=`date`", [], 1, id="a-command-s-output"),
        pytest.param("export A=b; rm -rf x", [], 1, id="two-commands"),
        pytest.param("export A=b && export C=d", [], 1, id="and"),
        pytest.param("export A", [], 1, id="no-value"),
        pytest.param("A=b", [], 1, id="not-exported"),
        pytest.param("if true; then\n  export A=b\nfi\nexport C=d", [("C", "d")], 3, id="condition"),
        pytest.param("f() {\n  export A=b\n}\nexport C=d", [("C", "d")], 3, id="function"),
        pytest.param("export A='unclosed", [], 1, id="broken"),
        pytest.param("source other.sh", [], 1, id="another-script"),
    ],
)
def test_a_script_s_plain_exports_are_read_and_nothing_else(
    script: str, pairs: list[tuple[str, str]], left: int
) -> None:
    lines = list(parse_exports(script))
    assert [pair for line in lines for pair in line.variables] == pairs
    assert sum(not line.variables for line in lines) == left


def test_variables_go_to_the_key_that_says_the_same(tmp_path: Path) -> None:
    variables = ("TORCH_CUDA_ARCH_LIST='9.0 10.0+PTX'", "PYTORCH_ROCM_ARCH=gfx942", "MAX_JOBS=4", 'A="x#y"')
    script = "".join(f"export {variable}\n" for variable in variables)
    folder = project(tmp_path, {LINUX: caller("env-var-script: env.sh"), "env.sh": script})
    moved(folder)
    request = request_of(folder)
    archs = {platform.platform: platform.archs for platform in request.platforms}
    assert (archs[Platform.LINUX_CUDA], archs[Platform.LINUX_ROCM]) == (("9.0", "10.0+PTX"), ("gfx942",))
    assert (request.build.max_jobs, request.build.env) == (4, (("A", "x#y"),))


def test_a_line_that_is_no_plain_export_is_named(tmp_path: Path) -> None:
    files = {LINUX: caller("env-var-script: env.sh", CPU), "env.sh": "export A=b\nexport B=$A\nif x; then\ny\nfi\n"}
    folder = project(tmp_path, files)
    written = migration.write_from_test_infra(folder, [folder / LINUX], catalog.load(), {})
    assert [(row.where, row.fate) for row in written.rows if row.name == "env-var-script"] == [
        ("env.sh:2-5", InputFate.NEEDS_YOU), (f"{folder / LINUX}:14", InputFate.CARRIED),
    ]  # fmt: skip


# ---------------------------------------------------------------- several files


def test_linux_windows_and_macos_are_merged(tmp_path: Path) -> None:
    windows, macos = ".github/workflows/windows.yml", ".github/workflows/macos.yml"
    files = {
        LINUX: caller("repository: example/tally\npackage-name: tally\npre-script: a.sh\npost-script: a.sh\n"
                      "timeout: 60\nenv-var-script: env.sh", on="{push: {branches: [main]}}"),
        windows: caller("package-name: tally\npre-script: a.sh\ntimeout: 90", "with-xpu: enable", kind="windows",
                        on="{push: {branches: [main, rc]}, schedule: [{cron: '0 0 * * *'}]}"),
        macos: caller("package-name: tally\npre-script: a.sh\nrunner-type: m1", kind="macos-arm64",
                      on="[pull_request]"),
        "a.sh": "", "env.sh": "export A=b\n",
    }  # fmt: skip
    folder = project(tmp_path, files)
    rows = moved(folder, LINUX, windows, macos)
    request = request_of(folder)
    served = {platform.platform: platform for platform in request.platforms}
    assert sorted(map(str, served)) == [
        "linux-cpu",
        "linux-cuda",
        "linux-rocm",
        "macos-arm64",
        "windows",
        "windows-cuda",
    ]
    assert (served[Platform.MACOS_ARM64].runner, served[Platform.LINUX_CPU].env) == (("m1",), (("A", "b"),))
    assert {platform.owner for platform in request.platforms} == {"@example"}
    assert [hook.run for hook in request.build.before] == ["bash a.sh"]
    assert (request.build.env, request.build.timeout_minutes) == ((), 90)
    text = (folder / "fatwheel.yml").read_text()
    assert request.build.after == ()
    assert "it was only for linux-cpu, linux-cuda, linux-rocm" in text
    assert (rows["pre-script"].fate, rows["post-script"].fate) == (InputFate.CARRIED, InputFate.NEEDS_YOU)
    assert rows["with-xpu"].what == "there is no platform for xpu on windows"
    push, schedule = {"branches": ["main", "rc"]}, [{"cron": "0 0 * * *"}]
    assert ours(folder)["on"] == {"push": push, "schedule": schedule, "pull_request": None}


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        pytest.param("push", ["push", "schedule"], {"push": None, "schedule": None}, id="names"),
        pytest.param({"push": None}, {"push": {"branches": ["a"]}}, {"push": None}, id="one-has-no-filter"),
        pytest.param({"push": {"branches": ["a"]}}, {"push": {"tags": ["v*"]}},
                     {"push": {"branches": ["a"], "tags": ["v*"]}}, id="branches-or-tags"),
        pytest.param({"push": {"paths": ["a"]}}, {"push": {"paths": ["b"]}},
                     {"push": {"paths": ["a", "b"]}}, id="paths"),
        pytest.param({"push": {"paths": ["a"], "branches": ["x"]}}, {"push": {"branches": ["x"]}},
                     {"push": {"branches": ["x"]}}, id="one-has-paths"),
        pytest.param({"push": {"paths-ignore": ["a"]}}, {"push": {"paths-ignore": ["b"]}},
                     {"push": None}, id="ignored"),
        pytest.param({"push": {"paths-ignore": ["a"]}}, {"push": {"paths-ignore": ["a"]}},
                     {"push": {"paths-ignore": ["a"]}}, id="ignored-by-both"),
        pytest.param(None, {"push": None}, {"push": None}, id="none"),
    ],
)  # fmt: skip
def test_whatever_started_one_of_them_starts_ours(one: object, other: object, both: dict[str, object]) -> None:
    assert merge_triggers([one, other]) == both


def test_our_workflow_names_itself_where_an_old_one_was_named(tmp_path: Path) -> None:
    on = {"pull_request": {"paths": ["setup.py", ".github/workflows/a.yml", ".github/workflows/b.yml"]}}
    table = ours(write(tmp_path, {OURS: workflow(join_triggers([on], ["a.yml", "b.yml"]), {"config": "fatwheel.yml"})}))
    assert table["on"] == {"pull_request": {"paths": ["setup.py", OURS]}}
    assert (table["permissions"], list(table["jobs"])) == ({}, ["wheels"])


def test_our_workflow_has_the_inputs_that_it_is_given() -> None:
    inputs = ours(PAGE.parents[2])["on"]["workflow_call"]["inputs"]
    assert {"config", "ref"} <= set(inputs)


@pytest.mark.parametrize(
    ("one", "other", "ref", "fate"),
    [
        pytest.param("ref: next", "ref: next", "next", "carried", id="the-same"),
        pytest.param("", "", "nightly", "carried", id="test-infra-s-own-default"),
        pytest.param("ref: ''", "ref: ''", None, "not needed", id="none"),
        pytest.param("ref: next", "ref: ''", None, "needs you", id="two"),
    ],
)
def test_a_ref_is_carried_where_all_files_build_it(tmp_path: Path, one: str, other: str, ref: str, fate: str) -> None:
    folder = project(tmp_path, {LINUX: caller(one, CPU), "w.yml": caller(other, CPU, kind="windows")})
    assert str(moved(folder, LINUX, "w.yml")["ref"].fate) == fate
    assert ours(folder)["jobs"]["wheels"]["with"].get("ref") == ref


# ---------------------------------------------------------------- other shapes of a caller


def test_a_matrix_of_one_row_is_worked_out(tmp_path: Path) -> None:
    more = "    strategy:\n      matrix:\n        include:\n          - {script: a.sh, name: tally}\n"
    build = "pre-script: ${{ matrix.script }}\npost-script: ${{ matrix.missing }}\npackage-name: ${{ matrix.name }}"
    folder = project(tmp_path, {LINUX: caller(build, CPU, more=more), "a.sh": ""})
    rows = moved(folder)
    assert [str(rows[name].fate) for name in ("pre-script", "post-script", "package-name")] == [
        "carried", "not needed", "carried",
    ]  # fmt: skip


def test_a_matrix_that_passes_through_another_job_is_found(tmp_path: Path) -> None:
    text = caller("", CPU).replace("needs.matrix.", "needs.filter.").replace("needs: matrix", "needs: filter")
    text += "  filter:\n    needs: matrix\n    runs-on: x\n    steps: []\n"
    folder = project(tmp_path, {LINUX: text})
    moved(folder)
    assert [platform.platform for platform in request_of(folder).platforms] == [Platform.LINUX_CPU]


def test_without_a_matrix_job_a_person_chooses(tmp_path: Path) -> None:
    text = "on: push\njobs:\n  b:\n    uses: pytorch/test-infra/.github/workflows/build_wheels_macos.yml@main\n"
    folder = project(tmp_path, {LINUX: text})
    assert "choose the platforms" in moved(folder)["build-matrix"].what
    assert [platform.platform for platform in request_of(folder).platforms] == [Platform.MACOS_ARM64]


def test_native_code_gets_its_globs_and_a_torch_that_its_source_targets(tmp_path: Path) -> None:
    define = "#define TORCH_TARGET_VERSION 0x020b000000000000\n#include <torch/csrc/stable/library.h>\n"
    folder = project(tmp_path, {LINUX: caller(), "csrc/op.cu": "// CUDA\n", "csrc/op.cpp": define})
    moved(folder)
    request = request_of(folder)
    cuda = next(platform for platform in request.platforms if platform.platform is Platform.LINUX_CUDA)
    assert cuda.native.include == ("**/*.cu", "**/*.cuh")
    assert request.torch
    assert request.torch.lowest == Minor(2, 11)


# ---------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("jobs: [", r"linux.yml:1:\d+: this is not YAML", id="not-yaml"),
        pytest.param("on: push\njobs:\n  a: {x: 1\n", r"linux.yml:\d+:\d+: this is not YAML", id="broken-further-down"),
        pytest.param("a: 1\n", "linux.yml:1:1: this is not a workflow, expected `jobs:`", id="no-jobs"),
        pytest.param("- a\n", "linux.yml:1:1: this is not a workflow", id="a-list"),
        pytest.param("jobs: {a: }\n", "linux.yml:1:7: this is not a workflow", id="empty-job"),
        pytest.param("jobs:\n  a: {runs-on: x}\n", "linux.yml:1:1: no job builds wheels with test-infra",
                     id="no-caller"),
        pytest.param(caller().replace("build_wheels_linux", "build_whels_linux"),
                     r'linux.yml:9:11: the job build calls .*, did you mean "build_wheels_linux"',
                     id="unknown-workflow"),
        pytest.param(caller("pre-scrpt: a.sh"),
                     r'linux.yml:12: test-infra has no input "pre-scrpt", did you mean "pre-script"',
                     id="unknown-input"),
        pytest.param(caller("", "with-cdua: enable"), r'linux.yml:7: .* did you mean "with-cuda"',
                     id="unknown-of-matrix"),
        pytest.param(caller("", "os: linus"),
                     r'linux.yml:6: test-infra has no os "linus", did you mean "linux"', id="unknown-os"),
        pytest.param(caller("package-name: ${{ matrix.n }}",
                            more="    strategy: {matrix: {include: [{n: a}, {n: b}]}}\n"),
                     r"linux.yml:9:\d+: the job build builds 2 packages, expected one", id="two-packages"),
    ],
)  # fmt: skip
def test_what_is_no_such_caller_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    folder = project(tmp_path, {LINUX: text})
    with pytest.raises(InputError, match=said):
        moved(folder)
    assert not (folder / "fatwheel.yml").exists()
    assert not (folder / OURS).exists()


@pytest.mark.parametrize("name", ["fatwheel.yml", OURS])
def test_a_file_that_is_there_stays_and_nothing_else_is_written(tmp_path: Path, name: str) -> None:
    folder = project(tmp_path, {LINUX: caller("", CPU), name: "mine\n"})
    with pytest.raises(InputError, match="exists already"):
        moved(folder)
    assert (folder / name).read_text() == "mine\n"
    assert sum((folder / one).exists() for one in ("fatwheel.yml", OURS)) == 1


@pytest.mark.parametrize(
    "hostile", ["a: b", "x # y", "'", '"', "{x}", "[", "- a", "é\u2028b", "%", "&a", "*a", "!!set"]
)
@pytest.mark.parametrize("name", ["package-name", "runner", "build-target", "pre-script", "upload-to-pypi", "ref"])
def test_whatever_an_input_says_the_config_loads(tmp_path: Path, name: str, hostile: str) -> None:
    table = yaml.safe_load(caller("", CPU))
    table = {"jobs": table["jobs"], "on": {"push": {"branches": [hostile]}}}
    table["jobs"]["build"]["with"][name] = hostile
    folder = project(tmp_path, {LINUX: yaml.safe_dump(table, allow_unicode=True)})
    moved(folder)
    assert request_of(folder).name == "tally"
    assert ours(folder)["on"] == {"push": {"branches": [hostile]}}


def test_the_command_prints_the_paths_and_reports_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project(tmp_path, {LINUX: caller("delocate-wheel: true", CPU)})
    monkeypatch.chdir(folder)
    assert command_line.main(["init", "--from-test-infra", LINUX]) == 0
    told = capsys.readouterr()
    assert told.out.split() == ["fatwheel.yml", OURS]
    assert re.search(r"linux.yml:\d+ +delocate-wheel +true +needs you", told.err)
    assert command_line.main(["init", "--from-test-infra", "none.yml", LINUX, "missing.yml"]) == 2


@pytest.mark.slow
def test_a_project_with_a_setup_py_alone_is_called_as_it_is_imported(tmp_path: Path) -> None:
    setup = "from setuptools import setup\nsetup(name='tally', version='1.0', py_modules=['tally'])\n"
    folder = write(
        tmp_path / "checkout", {"setup.py": setup, "tally.py": "", LINUX: caller("package-name: tally", CPU)}
    )
    moved(folder)
    assert (plan_of(folder).project.name, plan_of(folder).project.version) == ("tally", "1.0")


# ---------------------------------------------------------------- what a project needs beside its inputs

READS = """\
import os
from setuptools import setup
setup(name="tally", version=os.getenv("BUILD_VERSION") or open("version.txt").read().strip() + "+git")
"""
NEEDS = 'import setuptools\nsetuptools.setup(name="tally", version="@")\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "build"),
    [
        pytest.param({"setup.py": READS}, "package-name: tally", id="setup.py"),
        pytest.param({"setup.py": NEEDS, "a.sh": "sed -i s/@/$BUILD_VERSION/ setup.py\n"},
                     "package-name: tally\npre-script: a.sh", id="a-script-before"),
    ],
)  # fmt: skip
def test_the_version_follows_the_file_that_test_infra_takes_it_from(
    tmp_path: Path, files: dict[str, str], build: str
) -> None:
    folder = write(tmp_path / "tally", {LINUX: caller(build, CPU), "tally.py": "", "version.txt": "1.4.0", **files})
    moved(folder)
    assert request_of(folder).version is None
    for version in ("1.5.0", "1.6.0"):
        write(folder, {"version.txt": f"{version}\n"})
        assert plan_of(folder).project.version == version


def test_a_suffix_of_versions_is_left_to_the_labels_of_wheels(tmp_path: Path) -> None:
    folder = project(tmp_path, {LINUX: caller("", CPU), "setup.py": 'suffix = os.environ["VERSION_SUFFIX"]\n'})
    moved(folder)
    shown = 'VERSION_SUFFIX: "" # setup.py:1: each wheel gets a label of its own'
    assert shown in (folder / "fatwheel.yml").read_text(encoding="utf-8")


def test_submodules_that_are_not_checked_out_are_all_named(tmp_path: Path) -> None:
    modules = "".join(f'[submodule "{name}"]\n\tpath = third_party/{name}\n\turl = x\n' for name in ("a", "b", "c"))
    folder = project(tmp_path, {LINUX: caller("", CPU), ".gitmodules": modules, "third_party/b/b.h": ""})
    row = moved(folder)["submodules"]
    assert (row.fate, row.where) == (InputFate.NEEDS_YOU, ".gitmodules")
    assert row.what.startswith("third_party/a, third_party/c: not checked out")
    assert "# - .gitmodules: submodules: third_party/a" in (folder / "fatwheel.yml").read_text(encoding="utf-8")


def test_without_a_name_every_caller_of_the_repository_is_found(tmp_path: Path) -> None:
    quiet = "".join(f"# {line}\n" for line in caller().splitlines())
    folder = project(
        tmp_path, {LINUX: caller("", CPU), ".github/workflows/old.yml": quiet, ".github/workflows/ci.yml": "on: push\n"}
    )
    written = migration.write_from_test_infra(folder, (), catalog.load(), {})
    assert {row.where.partition(":")[0] for row in written.rows if row.name == "with-cpu"} == {str(folder / LINUX)}
    with pytest.raises(InputError, match=r"no workflow in .* calls build_wheels"):
        migration.find_callers(write(tmp_path / "none", {"setup.py": ""}))


def test_a_smoke_test_of_one_platform_is_left_to_a_person(tmp_path: Path) -> None:
    """A section of comments alone is no section: its key would have no value."""
    windows = caller("smoke-test-script: b.py\npre-script: b.sh", kind="windows")
    folder = project(tmp_path, {LINUX: caller("smoke-test-script: a.py", CPU), "w.yml": windows,
                                "a.py": "", "b.py": "", "b.sh": ""})  # fmt: skip
    rows = moved(folder, LINUX, "w.yml")
    request = request_of(folder)
    assert (request.validate.commands, request.build.before) == ((), ())
    assert rows["smoke-test-script"].what.startswith("it is only for windows, windows-cuda, and validate.commands is")
    assert "\nbuild:\n" not in (folder / "fatwheel.yml").read_text(encoding="utf-8")
