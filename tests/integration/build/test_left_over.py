"""Which jobs of a plan a machine leaves to others: those that it cannot build, and those that nobody asked it for."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.build import cross
from ci_tools.build.jobs import list_left_over
from ci_tools.machine.context import Outside
from ci_tools.plan.make import Planned, make_plan
from tests.builders.sources import world, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="Arm wheels for Linux are compiled on Linux"),
]

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
FILES = {
    "fatwheel.yml": f"""\
package: demo
owner: us
python: ["{OWN}"]
platforms:
  linux-cpu: {{native: ["*.c"], wheel-platform: linux}}
  linux-aarch64: {{native: ["*.c"]}}
  macos-arm64:
""",
    "setup.py": """\
import sys
from setuptools import Extension, setup
found = [Extension("demo._C", ["demo.c"])] if sys.platform == "linux" else []
setup(name="demo", version="1.0", packages=["demo"], ext_modules=found)
""",
    "demo.c": "",
    "demo/__init__.py": "",
}
TAG = OWN.replace(".", "")


@pytest.fixture
def on_linux(tmp_path: Path) -> tuple[Planned, Outside]:
    """The plan of a project that compiles on Linux only, and an x86-64 machine that has GCC's compiler for Arm."""
    outside = replace(world(tmp_path), host=cross.FROM)
    gcc = tmp_path / cross.COMPILER
    gcc.write_text("#!/bin/sh\necho 12.2.0\n")
    gcc.chmod(0o755)
    environ = {**outside.environ, "PATH": f"{tmp_path}:{outside.environ['PATH']}"}
    return make_plan(write(tmp_path / "a", FILES) / "fatwheel.yml", outside), replace(outside, environ=environ)


def test_what_is_for_other_machines_is_left_with_the_reason(on_linux: tuple[Planned, Outside]) -> None:
    left = {job.name: reason for job, reason in list_left_over(*on_linux, here=True)}
    assert left[f"linux-aarch64-cp{TAG}"] == (
        "it is for another machine than this linux-x86_64; `fatwheel build --job "
        f"linux-aarch64-cp{TAG}` compiles it here"
    )
    assert left["pure"] == (
        "the source compiles on linux-x86_64, and this wheel has nothing compiled: it is built on macos-arm64"
    )
    assert f"linux-cpu-cp{TAG}" not in left


def test_a_pure_wheel_is_built_where_only_a_variable_of_a_platform_makes_the_source_compile(tmp_path: Path) -> None:
    setup = FILES["setup.py"].replace('sys.platform == "linux"', '"NATIVE" in os.environ').replace("sys", "os")
    config = FILES["fatwheel.yml"].replace("wheel-platform: linux", "wheel-platform: linux, env: {NATIVE: 1}")
    files = {**FILES, "setup.py": setup, "fatwheel.yml": config.replace('  linux-aarch64: {native: ["*.c"]}\n', "")}
    outside = replace(world(tmp_path), host=cross.FROM)
    planned = make_plan(write(tmp_path / "a", files) / "fatwheel.yml", outside)
    assert [job.name for job in planned.plan.jobs] == ["pure", f"linux-cpu-cp{TAG}"]
    assert list_left_over(planned, outside, here=False) == ()
