"""Which build backends compile for another machine, and the cross file of meson."""

from __future__ import annotations

import configparser
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.build import cross, toolchain
from ci_tools.build.cross import Backend, explain_own_machine, read_backend, write_settings
from ci_tools.errors import MachineError
from ci_tools.machine.python import Environment
from ci_tools.model.platforms import Platform
from ci_tools.model.request import ToolchainKind
from ci_tools.source.files import tree_at
from tests.builders.plans import job_of
from tests.builders.sources import request_of, world, write

CONFIG = 'package: demo\npython: ["3.12"]\nplatforms:\n  linux-aarch64: {owner: "@demo/arm", native: ["*.c"]}\n'
ARM = replace(
    job_of("demo-1.0-cp312-cp312-manylinux_2_28_aarch64.whl", Platform.LINUX_AARCH64),
    torch=None,
    wheel_platform="manylinux_2_28_aarch64",
    toolchain=ToolchainKind.AUTO,
    python_stays=False,
)
CPU = replace(ARM, platform=Platform.LINUX_CPU, wheel_platform="manylinux_2_28_x86_64")
MATURIN = Backend("maturin", ("maturin>=1.8,<2",))
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="Arm wheels for Linux are compiled on Linux")


@pytest.mark.parametrize(
    ("build_system", "why"),
    [
        ('requires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"', ""),
        ('requires = ["setuptools"]', ""),  # PEP 517: the backend is setuptools
        ('requires = ["scikit-build-core"]\nbuild-backend = "scikit_build_core.build"', ""),
        ('requires = ["meson-python"]\nbuild-backend = "mesonpy"', ""),
        (
            'requires = ["maturin>=1.8,<2"]\nbuild-backend = "maturin"',
            'cargo compiles for that one only (the build requires "maturin>=1.8,<2")',
        ),
        (
            'requires = ["setuptools", "setuptools_rust"]\nbuild-backend = "setuptools.build_meta"',
            'cargo compiles for that one only (the build requires "setuptools_rust")',
        ),
        (
            'requires = ["hatchling", "hatch-cython"]\nbuild-backend = "hatchling.build"',
            "nothing says that hatchling.build compiles for another one",
        ),
        ('requires = ["setuptools"]\nbuild-backend = "own"\nbackend-path = ["tools"]', ""),
        ('requires = ["pdm-backend", "Setuptools>=61"]\nbuild-backend = "pdm.backend"', ""),
        (
            'requires = ["meson-python"]\nbuild-backend = "mesonpy"\nbackend-path = ["tools"]',
            "nothing says that the source's own backend (mesonpy) compiles for another one",
        ),
        (
            'requires = ["flit_core"]\nbuild-backend = "own"\nbackend-path = ["tools"]',
            "nothing says that the source's own backend (own) compiles for another one",
        ),
    ],
)
def test_a_backend_takes_a_compiler_for_another_machine_or_not(build_system: str, why: str, tmp_path: Path) -> None:
    pyproject = f'[build-system]\n{build_system}\n[project]\nname = "demo"\nversion = "1.0"\n'
    write(tmp_path, {"fatwheel.yml": CONFIG, "pyproject.toml": pyproject})
    assert (
        explain_own_machine(read_backend(request_of(tmp_path), tree_at(tmp_path, {"PATH": os.environ["PATH"]}))) == why
    )


def toolchains(folder: Path, backend: Backend, host: str = cross.FROM) -> toolchain.Toolchains:
    """Return the toolchains of a machine that has GCC's cross compiler."""
    gcc = folder / cross.COMPILER
    gcc.write_text("#!/bin/sh\necho 12.2.0\n")
    gcc.chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    return toolchain.Toolchains(catalog.load(), replace(world(folder), environ={"PATH": path}, host=host), backend)


@on_linux
@pytest.mark.parametrize("kind", [ToolchainKind.AUTO, ToolchainKind.SYSTEM])
def test_an_arm_wheel_of_a_backend_that_cannot_be_told_is_left_to_an_arm_machine(
    kind: ToolchainKind, tmp_path: Path
) -> None:
    job = replace(ARM, toolchain=kind)
    said = (
        "linux-aarch64 wheels of this project are built on linux-aarch64, such as the platform's default runner; this "
        'machine is linux-x86_64, and cargo compiles for that one only (the build requires "maturin>=1.8,<2")'
    )
    found = toolchains(tmp_path, MATURIN)
    assert found.missing(job) == said
    with pytest.raises(MachineError, match="cannot be built here: linux-aarch64 wheels of this project"):
        found.prepare(job)
    assert toolchains(tmp_path, Backend("mesonpy")).missing(job) == ""
    assert (
        toolchains(tmp_path, MATURIN, host="linux-aarch64").missing(replace(job, toolchain=ToolchainKind.SYSTEM)) == ""
    )


@on_linux
def test_where_nothing_compiles_for_arm_the_backend_is_no_reason(tmp_path: Path) -> None:
    said = "linux-aarch64 wheels are built on linux-aarch64, this machine is macos-arm64"
    assert toolchains(tmp_path, MATURIN, host="macos-arm64").missing(ARM) == said


def test_meson_gets_a_cross_file_and_no_other_backend_a_setting(tmp_path: Path) -> None:
    isolated = Environment(path=tmp_path / "env", variables={}, log=tmp_path / "log")
    assert write_settings("setuptools.build_meta", isolated, tmp_path) == {}
    (setting,) = write_settings("mesonpy", isolated, tmp_path, is_cross=True)["setup-args"]
    option, _, file = setting.partition("=")
    parser = configparser.ConfigParser()
    parser.read_string(Path(file).read_text(encoding="utf-8"))
    assert option == "--cross-file"
    assert parser["binaries"]["c"] == "'aarch64-linux-gnu-gcc'"
    assert parser["binaries"]["python"] == f"'{isolated.python}'"
    assert parser["host_machine"]["cpu_family"] == "'aarch64'"
