"""The torch that a build gets is the one that its cells say, or nothing is compiled."""

from __future__ import annotations

import os
import platform
import sys
import zipfile
from pathlib import Path

import pytest

from ci_tools.build.builder import Workshop
from ci_tools.build.requirements import Expected, require_torch, torch_of_job
from ci_tools.build.toolchain import Toolchain
from ci_tools.errors import MachineError
from ci_tools.machine.python import Environment, create
from ci_tools.plan.make import Planned, make_plan
from tests.builders.sources import demo, world, world_with_uv
from tests.builders.wheels import linked, make

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
CONFIG = f"""\
package: demo
python: ["{PYTHON}"]
torch: ["2.10"]
platforms:
  linux-cpu: {{owner: us, native: ["*.cpp"], wheel-platform: linux}}
  linux-cuda: {{owner: us, native: ["*.cpp"], wheel-platform: linux, cuda: ["12.6"], archs: ["9.0"]}}
  linux-rocm: {{owner: us, native: ["*.cpp"], wheel-platform: linux, rocm: ["7.1"], archs: [gfx942]}}
"""
PROJECT = """\
[build-system]
requires = ["setuptools", "torch"]
build-backend = "setuptools.build_meta"

[project]
name = "demo"
version = "1.0"
"""
SETUP = "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('demo_C', ['a.cpp'])])\n"
FULL = "#include <torch/extension.h>\n"
STABLE = "#define TORCH_TARGET_VERSION 0x020a000000000000\n#include <torch/csrc/stable/library.h>\n"
HEADERS = """\
import os
from setuptools import Extension, setup
include = os.environ["FATWHEEL_TORCH_INCLUDE"]
print("headers:", os.path.realpath(include))
setup(ext_modules=[Extension("demo_C", ["a.cpp"], include_dirs=[include])])
"""
CUDA = Expected("2.10", "cu126")
CPU = Expected("2.10", "cpu")
ROCM = Expected("2.10", "rocm7.1")
DEV = "2.16.0.dev20261125"


def planned(folder: Path, header: str = FULL, more: str = "") -> Planned:
    files = {"fatwheel.yml": CONFIG + more, "pyproject.toml": PROJECT, "setup.py": SETUP, "a.cpp": header}
    return make_plan(demo(folder / "source", files) / "fatwheel.yml", world(folder))


def torch(folder: Path, name: str, cuda: str = "", hip: str = "") -> Path:
    """Write an empty torch whose version.py is like upstream's."""
    said = {"__version__": name, "cuda": cuda, "hip": hip}
    lines = [f"{key}: Optional[str] = {value or None!r}\n" for key, value in said.items()]
    members = {"torch/__init__.py": b"", "torch/version.py": "".join(lines).encode()}
    return make(folder, f"torch-{name}-py3-none-any.whl", members)


def environment(folder: Path, *wheels: Path) -> Environment:
    """Return an environment that holds the wheels, and where pip finds no other."""
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(folder / f"lib/python{PYTHON}/site-packages")
    return Environment(path=folder, variables={"PIP_NO_INDEX": "1"}, log=folder / "log")


def test_a_job_says_which_torch_it_is_compiled_against(tmp_path: Path) -> None:
    jobs = planned(tmp_path).plan.jobs
    assert {job.accelerator and job.accelerator.label: torch_of_job(job) for job in jobs} == {
        None: CPU, "cu126": CUDA, "rocm7.1": ROCM,
    }  # fmt: skip


def test_headers_of_the_stable_abi_ask_for_a_version_alone(tmp_path: Path) -> None:
    jobs = planned(tmp_path, STABLE).plan.jobs
    found = {job.accelerator and job.accelerator.label: torch_of_job(job) for job in jobs}
    assert found == {None: Expected("2.10"), "cu126": Expected("2.10"), "rocm7.1": ROCM}  # which translates sources


@pytest.mark.parametrize(
    ("name", "kind", "expected", "wrong"),
    [
        pytest.param("2.10.1", {"cuda": "12.6"}, CUDA, "", id="of-pypi-for-that-cuda"),
        pytest.param("2.10.1", {"cuda": "12.8"}, CUDA, "torch 2.10.1 for cu128, expected 2.10 for cu126", id="cuda"),
        pytest.param("2.10.1+cpu", {}, CUDA, "torch 2.10.1+cpu, expected 2.10 for cu126", id="cpu-for-cuda"),
        pytest.param("2.10.1+cu126", {"cuda": "12.6"}, CPU, "torch 2.10.1+cu126, expected 2.10 for cpu", id="for-cpu"),
        pytest.param("2.10.1", {}, CPU, "", id="of-pypi-for-cpu"),
        pytest.param("2.10.1+rocm7.1", {"hip": "7.1.2"}, ROCM, "", id="rocm"),
        pytest.param("2.10.1", {"hip": "7.1.2"}, ROCM, "", id="rocm-without-a-local-version"),
        pytest.param("2.9.1", {"cuda": "12.6"}, CUDA, "torch 2.9.1 for cu126, expected 2.10 for cu126", id="older"),
        pytest.param("2.1.0", {}, Expected("2.10"), "torch 2.1.0 for cpu, expected 2.10", id="version-alone"),
        pytest.param("2.10.0", {"cuda": "13.0"}, Expected("2.10"), "", id="any-accelerator"),
        pytest.param(
            f"{DEV}+cpu", {}, Expected("2.16"), f"torch {DEV}+cpu, expected 2.16", id="nightly-for-its-release"
        ),
        pytest.param(f"{DEV}+cpu", {}, Expected(DEV, "cpu"), "", id="nightly"),
        pytest.param(
            f"{DEV}+cpu", {}, Expected(f"{DEV[:-1]}4"), f"torch {DEV}+cpu, expected {DEV[:-1]}4", id="of-another-day"
        ),
    ],
)
def test_another_torch_is_refused(
    tmp_path: Path, name: str, kind: dict[str, str], expected: Expected, wrong: str
) -> None:
    found = environment(tmp_path / "env", torch(tmp_path, name, **kind))
    if not wrong:
        require_torch(found, expected)
        return
    with pytest.raises(MachineError, match=r"^the build would get ") as refused:
        require_torch(found, expected)
    assert refused.value.message == f"the build would get {wrong}"


def test_an_environment_without_torch_is_not_asked(tmp_path: Path) -> None:
    require_torch(environment(tmp_path), CUDA)


@pytest.mark.slow
def test_of_all_that_an_index_has_the_right_one_is_taken(tmp_path: Path) -> None:
    for name, cuda in (("2.10.1+cu126", "12.6"), ("2.10.1+cu130", "13.0")):
        torch(tmp_path / "links", name, cuda)
    variables = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "links")}
    found = create(Path(sys.executable), tmp_path / "env", tmp_path / "log", os.environ, variables)
    found.install("torch")
    assert list(found.path.rglob("torch-2.10.1+cu130.dist-info"))
    require_torch(found, CUDA)
    assert list(found.path.rglob("torch-2.10.1+cu126.dist-info"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linux-cpu", "linux-cuda-cu126"])
def test_nothing_is_compiled_against_another_torch(tmp_path: Path, name: str) -> None:
    torch(tmp_path / "links", "2.10.1", "13.0")
    made = planned(tmp_path, more="build: {torch: full}\n")
    job = next(job for job in made.plan.jobs if job.name.startswith(name))
    workshop = Workshop(logs=tmp_path / "logs", outside=world_with_uv(tmp_path, PIP_FIND_LINKS=str(tmp_path / "links")))
    tools = Toolchain(identity="", python=Path(sys.executable))
    with pytest.raises(MachineError, match=r"^the build would get torch 2\.10\.1 for cu130, expected 2\.10 for "):
        workshop.build_wheel(job, made.plan, made.tree, tools, tmp_path / "dist")
    assert "build_ext" not in (tmp_path / "logs" / f"{job.name}.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("requires", "place"),
    [
        pytest.param('"setuptools", "torch"', "/fatwheel-lent/torch/include", id="those-of-its-torch"),
        pytest.param('"setuptools"', "/fatwheel_torch_include", id="fetched-without-a-torch"),
    ],
)
def test_a_build_finds_the_headers_of_torch_where_it_is_told(tmp_path: Path, requires: str, place: str) -> None:
    include = tmp_path / "fetched/torch/include"
    (include / "torch").mkdir(parents=True)
    (include / "torch/extension.h").write_text("#pragma once\n")
    members = {
        "torch/version.py": b"__version__ = '2.10.0+cpu'\ncuda = None\n",
        "torch/include/torch/extension.h": b"#pragma once\n",
        "torch/lib/libc10.so": linked("int c10_one;"),
    }
    make(tmp_path / "links", f"torch-2.10.0+cpu-py3-none-manylinux_2_28_{platform.machine()}.whl", members)
    text = {"pyproject.toml": PROJECT.replace('"setuptools", "torch"', requires), "setup.py": HEADERS, "a.cpp": FULL}
    config = CONFIG.partition("  linux-cuda:")[0]
    source = demo(tmp_path / "source", {"fatwheel.yml": config, **text})
    made = make_plan(source / "fatwheel.yml", world(tmp_path))
    (job,) = made.plan.jobs
    workshop = Workshop(logs=tmp_path / "logs", outside=world_with_uv(tmp_path, PIP_FIND_LINKS=str(tmp_path / "links")))
    tools = Toolchain(identity="", python=Path(sys.executable), fetch_headers=lambda: include)
    workshop.build_wheel(job, made.plan, made.tree, tools, tmp_path / "dist")
    (told,) = {line for line in (tmp_path / f"logs/{job.name}.log").read_text().splitlines() if "headers:" in line}
    assert told.endswith(place)
