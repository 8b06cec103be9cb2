"""What a build for Arm on an x86-64 machine is told, and why there is none."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.build import cross, cuda_toolkits
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.machine.python import Environment
from ci_tools.model.platforms import Accelerator, Platform
from ci_tools.model.request import ToolchainKind
from ci_tools.model.versions import Minor
from tests.builders.plans import job_of
from tests.builders.sources import world

ARM = "linux-aarch64"
JOB = job_of("demo-1.0-cp312-cp312-manylinux_2_28_aarch64.whl", Platform.LINUX_AARCH64)
ASKS = "import sysconfig as s; print(s.get_platform(), s.get_config_var('EXT_SUFFIX'), s.get_path('include'))"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Arm wheels for Linux are compiled on Linux")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The PATH of a machine with a cross compiler."""
    program = tmp_path / "bin" / cross.COMPILER
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 12.2.0\n")
    program.chmod(0o755)
    return f"{program.parent}:/usr/bin:/bin"


def refusal(path: str, *, wanted: str = ARM, here: str = "linux-x86_64", **fields: str) -> str:
    return cross.explain_refusal(replace(JOB, **fields), wanted, here, {"PATH": path})


def test_an_arm_wheel_is_compiled_where_the_compiler_is(path: str) -> None:
    assert refusal(path) == ""
    assert "or here once aarch64-linux-gnu-g++ is on PATH" in refusal("/nowhere")
    assert "bind to torch" in refusal(path, requires_torch=">=2.10,<2.11")
    assert refusal(path, wanted="macos-arm64") == (
        "linux-aarch64 wheels are built on macos-arm64, this machine is linux-x86_64"
    )
    assert cross.compiler_of({"PATH": path}) == "aarch64-linux-gnu-g++ 12.2.0"


@pytest.mark.parametrize(
    ("toolchain", "why"),
    [
        (ToolchainKind.SYSTEM, "no CUDA 13.0 with targets/sbsa-linux/lib is installed"),
        (
            ToolchainKind.REDIST,
            "archives of CUDA 13.0 for linux-cuda-aarch64 are fetched for linux-x86_64 only",
        ),
    ],
)
def test_a_toolkit_without_libraries_for_arm_is_none(toolchain: ToolchainKind, why: str, tmp_path: Path) -> None:
    cuda = Accelerator(CUDA, Minor(13, 0))
    job = replace(JOB, platform=Platform.LINUX_CUDA_AARCH64, accelerator=cuda, toolchain=toolchain)
    outside = replace(world(tmp_path), environ={"CUDA_HOME": str(tmp_path)}, host="linux-x86_64")
    assert why in cuda_toolkits.CudaToolkits(catalog.load(), outside).missing(job)


def test_no_other_machine_compiles_for_arm(path: str) -> None:
    said = "linux-aarch64 wheels are built on linux-aarch64, this machine is macos-arm64"
    assert refusal(path, here="macos-arm64") == said


def test_a_builds_python_says_that_it_is_for_arm(tmp_path: Path) -> None:
    packages = tmp_path / "env/lib/python3.12/site-packages"
    packages.mkdir(parents=True)
    told = cross.prepare_environment(Environment(path=tmp_path / "env", variables={}, log=tmp_path / "log"), tmp_path)
    plain, other = (
        subprocess.run([sys.executable, "-c", ASKS], capture_output=True, text=True, check=True, env=env).stdout.split()
        for env in ({}, {**told, "PYTHONPATH": str(packages)})
    )
    assert other[0] == "linux-aarch64"
    assert other[1] == plain[1].replace("x86_64", "aarch64")
    assert other[2] == plain[2]  # the headers are this machine's
    assert "CMAKE_SYSTEM_PROCESSOR aarch64" in (tmp_path / "cross.cmake").read_text()
