"""What a starter takes of [tool.cibuildwheel], and what it says of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.cli.tables.change import describe_starter
from ci_tools.config import loader, starter
from ci_tools.config.project import BLANK
from ci_tools.config.starter import WrittenConfig
from ci_tools.config.starter.cibuildwheel import read_cibuildwheel
from ci_tools.errors import InputError
from ci_tools.model.platforms import Platform
from ci_tools.model.request import Request
from ci_tools.plan.make import make_plan
from ci_tools.source.files import tree_at
from ci_tools.source.project_file import ProjectFile
from tests.builders.sources import shared_world, write

pytestmark = pytest.mark.slow
LONG = pytest.mark.long

PROJECT = """\
[build-system]
requires = ["setuptools", "cython"]
build-backend = "setuptools.build_meta"
[project]
name = "demo"
version = "1"
requires-python = ">=3.10"
[tool.cibuildwheel]
"""
SETUP = """\
import os
from setuptools import Extension, setup
built = [Extension("demo._C", ["demo.c"], py_limited_api=LIMITED)] if os.environ.get("DEMO_FAST") != "0" else []
setup(packages=["demo"], ext_modules=built, options={"bdist_wheel": {"py_limited_api": "cp310"}} if LIMITED else {})
"""


def start(root: Path, lines: str, *, limited: bool = False, body: str = "") -> tuple[WrittenConfig, Request]:
    """Write a starter for a project that tells cibuildwheel some lines; its plan warns of nothing."""
    setup = SETUP.replace("LIMITED", str(limited))
    code = "#define Py_LIMITED_API 0x030A0000\n#include <Python.h>\n" if limited else "#include <Python.h>\n"
    files = {"pyproject.toml": f"{PROJECT}{lines}", "setup.py": setup, "demo/__init__.py": body, "demo.c": code}
    written = starter.write(write(root / "demo", files), catalog.load(), shared_world())
    assert make_plan(written.path, shared_world()).plan.warnings == ()
    return written, loader.load(written.path, catalog.load())


@pytest.mark.parametrize(
    ("lines", "pythons", "platforms"),
    [
        pytest.param('build = "cp3{11,12}-*"', "3.11 3.12", "linux-cpu linux-aarch64 macos-arm64 windows", id="build"),
        pytest.param('build = ["cp312-*"]\nskip = "*-win* *-macosx_*"', "3.12", "linux-cpu linux-aarch64",
                     id="skip", marks=LONG),
        pytest.param('skip = "cp310-* pp* *-musllinux_*"\n[tool.cibuildwheel.linux]\narchs = ["x86_64"]',
                     "3.11 3.12 3.13 3.14 3.15", "linux-cpu macos-arm64 windows", id="archs"),
        pytest.param('archs = ["auto"]\nbuild = "cp312-*"', "3.12",
                     "linux-cpu linux-aarch64 macos-arm64 windows", id="what-the-machine-has", marks=LONG),
        pytest.param('[tool.cibuildwheel.macos]\narchs = "x86_64 universal2"', "3.10 3.11 3.12 3.13 3.14 3.15",
                     "linux-cpu linux-aarch64 macos-arm64 windows", id="universal", marks=LONG),
        pytest.param('build = "pp310-*"', "3.10 3.11 3.12 3.13 3.14 3.15", "", id="none-of-ours", marks=LONG),
    ],
)  # fmt: skip
def test_the_pythons_and_platforms_are_those_of_cibuildwheel(
    tmp_path: Path, lines: str, pythons: str, platforms: str
) -> None:
    if not platforms:
        with pytest.raises(InputError, match="cibuildwheel builds none for it"):
            start(tmp_path, lines)
        return
    _, request = start(tmp_path, lines)
    assert " ".join(map(str, request.pythons)) == pythons
    assert " ".join(one.platform for one in request.platforms) == platforms


def test_one_wheel_for_all_pythons_serves_more_than_the_one_that_builds_it(tmp_path: Path) -> None:
    _, request = start(tmp_path, 'build = "cp310-*"', limited=True)
    assert " ".join(map(str, request.pythons)) == "3.10 3.11 3.12 3.13 3.14 3.15"


def test_what_a_build_gets_is_taken_where_the_config_has_it(tmp_path: Path) -> None:
    _, request = start(
        tmp_path,
        """\
before-build = "pip install -U cython 'numpy>=2'"
environment = { DEMO_FAST = "1", DEMO_HOME = "$HOME/x", PIP_CONSTRAINT = "cython.txt", FORCE_COLOR = "1" }
[tool.cibuildwheel.windows]
environment = "CFLAGS='-O2 -g' OTHER=1"
""",
    )
    windows = next(one for one in request.platforms if one.platform == "windows")
    assert (request.build.requires, request.build.env) == (("numpy>=2",), (("DEMO_FAST", "1"),))
    assert windows.env == (("CFLAGS", "-O2 -g"), ("OTHER", "1"))


def test_a_variable_of_cibuildwheel_decides_what_is_compiled(tmp_path: Path) -> None:
    written, _ = start(tmp_path, 'environment = { DEMO_FAST = "0" }')
    assert not written.starter.is_native


def test_every_option_that_says_something_has_a_line_with_its_place(tmp_path: Path) -> None:
    written, _ = start(
        tmp_path,
        """\
before-build = ["pip install numpy", "python tools/make.py"]
build-verbosity = 1
unknown-to-us = true
before-all = ""
environment = {}
repair-wheel-command = ""
[tool.cibuildwheel.linux]
before-all = "yum install -y zlib-devel"
""",
    )
    told = [line.partition("cibuildwheel's ")[::2] for line in describe_starter(written) if "cibuildwheel" in line]
    instead = "not taken; in its place:"
    assert told == [
        ("  pyproject.toml:9: ", f"before-build: {instead} `build: {{before: […]}}`, whose effect no plan sees"),
        ("  pyproject.toml:10: ", "build-verbosity: not needed: each build has a log"),
        ("  pyproject.toml:11: ", "unknown-to-us: not taken"),
        (
            "  pyproject.toml:14: ",
            "repair-wheel-command: not needed: wheels for Linux are repaired, without torch's libraries",
        ),
        ("  pyproject.toml:16: ", f"before-all: {instead} a `container` whose image has what it installs"),
    ]


def test_variables_of_workflows_are_named_though_their_values_may_be_for_one_job(tmp_path: Path) -> None:
    workflow = """\
env: {CIBW_SKIP: "pp*"}
jobs:
  # CIBW_BUILD: cp312-*
  a: {steps: [{env: {CIBW_BEFORE_ALL_LINUX: make, CIBW_MANYLINUX_X86_64_IMAGE: manylinux_2_34}}]}
  b: {steps: [{run: "CIBW_SKIP=x python -m cibuildwheel"}, {env: {CIBW_REPAIR_WHEEL_COMMAND: ""}}]}
"""
    write(tmp_path / "demo", {".github/workflows/w.yml": workflow})
    written, _ = start(tmp_path, "")
    assert [
        (note.place.rpartition(":")[2], note.option, note.what.partition(":")[0]) for note in written.starter.told.notes
    ] == [
        ("1", "CIBW_SKIP", "not taken; in its place"),
        ("4", "CIBW_BEFORE_ALL_LINUX", "not taken; in its place"),
        ("4", "CIBW_MANYLINUX_X86_64_IMAGE", "not taken; in its place"),
        ("5", "CIBW_REPAIR_WHEEL_COMMAND", "not needed"),
    ]


@pytest.mark.parametrize(
    ("lines", "variables", "left"),
    [
        ('archs = "x86_64"', "CIBW_ARCHS_LINUX: auto", "macos-arm64 windows"),
        ('[tool.cibuildwheel.linux]\narchs = "x86_64"', "CIBW_ARCHS: auto", ""),
        ('archs = "x86_64"\n[tool.cibuildwheel.linux]\narchs = "aarch64"', "", "linux-cpu macos-arm64 windows"),
        ('build = "*x86_64"', "CIBW_BUILD: cp312-*", ""),
        ('skip = "*-win*"', "CIBW_BUILD: cp312-*", "windows"),
        ('skip = "*-win*"', "CIBW_SKIP: ${{ matrix.skip }}", ""),
    ],
)  # fmt: skip
def test_a_variable_of_a_workflow_counts_more_than_pyproject_toml(
    lines: str, variables: str, left: str, tmp_path: Path
) -> None:
    workflow = f"jobs: {{a: {{env: {{{variables}}}}}}}\n"
    write(tmp_path, {"pyproject.toml": f"{PROJECT}{lines}", ".github/workflows/w.yml": workflow})
    told = read_cibuildwheel(ProjectFile(BLANK, tree_at(tmp_path, {})))
    platforms = ("linux-cpu", "linux-aarch64", "macos-arm64", "windows")
    assert " ".join(one for one in platforms if told.explain_left_out(Platform(one))) == left
    assert ("w.yml:1 sets CIBW_" in told.notes[0].what) == (not left)


def test_workflows_that_call_test_infra_are_named_with_the_command_that_reads_them(tmp_path: Path) -> None:
    place = ".github/workflows/wheels.yml"
    write(
        tmp_path / "demo",
        {place: "jobs: {a: {uses: pytorch/test-infra/.github/workflows/build_wheels_linux.yml@main}}"},
    )
    written, _ = start(tmp_path, "")
    command = f"`fatwheel init --from-test-infra {place}` takes what it asks for"
    assert f"  {place} calls pytorch/test-infra: {command}" in [*describe_starter(written)]


def test_what_users_lack_at_an_import_is_said_beside_what_the_trials_install(tmp_path: Path) -> None:
    written, _ = start(tmp_path, "", body="import yaml\n")
    (said,) = [line for line in describe_starter(written) if "pyyaml" in line]
    assert said.endswith(
        "which nothing that the project requires brings: users lack it, unless the project requires it"
    )


def test_a_module_of_the_projects_own_name_is_nothing_that_users_lack(tmp_path: Path) -> None:
    written, _ = start(tmp_path, "", body="import demo_native\n")
    assert not [line for line in describe_starter(written) if "demo-native" in line]
