"""Whole plans, as golden texts, and what every Python can install of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.tags import cpython_tags
from packaging.utils import parse_wheel_filename

from ci_tools.model.versions import Python
from tests.builders.planned import every_plan, plans
from tests.builders.sources import PROJECT, demo, plan_of, write
from tests.unit.plan.test_planner import LINUX_CPU, REQUEST, TORCH_CONFIG, assert_golden, text

pytestmark = pytest.mark.slow

INCLUDES = "#include <torch/csrc/stable/library.h>\n"


CMAKE = """\
[build-system]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1.0"
requires-python = ">=3.10"
[tool.scikit-build]
"""


LIMITED_SETUPTOOLS = """\
[project]
name = "demo"
version = "1.0"
[tool.distutils.bdist_wheel]
py-limited-api = "cp311"
[tool.setuptools]
py-modules = []
ext-modules = [{name = "a", sources = ["a.cpp"], py-limited-api = true}]
"""


LINUX_CUDA = '  linux-cuda: {owner: "@demo/cuda", native: ["*.cu"], cuda: [12.6, 12.9, 13.0], archs: [9.0]'


SETUP = {"setup.py": "from setuptools import setup\nopen('/etc/hostname')\nsetup(ext_modules=[])\n"}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        pytest.param("limited-api", {"fatwheel.yml": REQUEST + LINUX_CPU,
                                     "pyproject.toml": f"{CMAKE}wheel.py-api='cp311'",
                                     "a.cpp": "#include <Python.h>\n"}, id="abi3-and-those-it-does-not-reach"),
        pytest.param("limited-api-both", {"fatwheel.yml": REQUEST + LINUX_CPU,
                                          "pyproject.toml": f"{CMAKE}wheel.py-api='cp311.cp315t'", "a.cpp": ""},
                     id="abi3-and-abi3t"),
        pytest.param("limited-api-one", {"fatwheel.yml": REQUEST + LINUX_CPU,
                                         "pyproject.toml": f"{CMAKE}wheel.py-api='cp315.cp315t'", "a.cpp": ""},
                     id="one-for-both-from-3.15"),
        pytest.param("limited-api-setuptools", {
            "fatwheel.yml": REQUEST + LINUX_CPU, "a.cpp": "", "pyproject.toml": LIMITED_SETUPTOOLS},
            id="setuptools-builds-no-older-python"),
        pytest.param("torch-list", {"fatwheel.yml": f"{REQUEST}{LINUX_CUDA}}}\ntorch: ['2.10', '2.13']\n", "a.cu": "",
                                    "pyproject.toml": f"{CMAKE}wheel.py-api='py3'",
                                    "b.cpp": "#include <ATen/ATen.h>\n"},
                     id="torch-that-is-not-stable"),
        pytest.param("unknown", {"fatwheel.yml": f"{REQUEST}{LINUX_CUDA}}}\n{LINUX_CPU}torch: {{lowest: '2.14'}}\n",
                                 "pyproject.toml": CMAKE.replace("scikit_build_core.build", "setuptools.build_meta"),
                                 **SETUP, "a.cu": INCLUDES}, id="what-is-not-known-collapses-nothing"),
        pytest.param("one-per-major", {"fatwheel.yml": f"{REQUEST}{LINUX_CUDA}, one-per-major: true}}\n",
                                       "pyproject.toml": f"{CMAKE}wheel.py-api='py3'", "a.cu": ""}, id="one-per-major"),
        pytest.param("switched-off", {"fatwheel.yml": f"{REQUEST}{LINUX_CUDA}, enabled: false}}\n{LINUX_CPU}",
                                      "pyproject.toml": f"{CMAKE}wheel.cmake=false", "a.cu": ""}, id="switched-off"),
        pytest.param("switched-on", {"fatwheel.yml": f"{REQUEST}  linux-cpu: {{owner: x, enabled: true}}\n",
                                     "pyproject.toml": f"{CMAKE}wheel.cmake=false"}, id="switched-on"),
        pytest.param("requires-python", {
            "fatwheel.yml": REQUEST + LINUX_CPU,
            "pyproject.toml": f"{CMAKE.replace('>=3.10', '!=3.10.*,<3.15')}wheel.cmake=false"},
                     id="python-the-project-does-not-support"),
    ],
)  # fmt: skip
def test_a_plan_is_as_its_golden_text_says(tmp_path: Path, name: str, files: dict[str, str]) -> None:
    assert_golden(text(plan_of(write(tmp_path / "a", files))), name)


def test_every_python_can_install_the_wheel_it_is_given() -> None:
    for plan in every_plan():
        for job in plan.jobs:
            tags = {str(tag) for tag in parse_wheel_filename(job.wheel)[3]}
            assert all(tags & _installable(cell.python) for cell in job.covers), job.wheel


def _installable(python: Python) -> set[str]:
    tags = cpython_tags(python.version, [python.abi_tag], ["linux_x86_64"])
    return {*map(str, tags), "py3-none-linux_x86_64", "py3-none-any"}


def test_the_same_request_makes_the_same_plan() -> None:
    assert tuple(plans()) == every_plan()


FULL = "#include <torch/extension.h>\n"


STABLE = "#define TORCH_TARGET_VERSION 0x020a000000000000\n#include <torch/csrc/stable/library.h>\n"


UNBUILT = "its build requires torch ==2.14.0 (pyproject.toml:2)"


@pytest.mark.parametrize(
    ("header", "covered", "built_with"),
    [
        pytest.param(FULL, ["2.14"], ["2.14"], id="one-wheel-per-torch"),
        pytest.param(STABLE, ["2.10", "2.14", "2.15"], ["2.14"], id="one-wheel-for-all"),
    ],
)
def test_what_a_build_requires_of_torch_decides_which_it_is_built_with(
    tmp_path: Path, header: str, covered: list[str], built_with: list[str]
) -> None:
    project = PROJECT.replace('build-backend = "flit_core.buildapi"', 'requires = ["setuptools", "torch == 2.14.0"]')
    setup = "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('demo_C', ['a.cpp'])])\n"
    config = f"{TORCH_CONFIG}  linux-cpu: {{owner: us, native: ['*.cpp']}}\n"
    plan = plan_of(
        demo(tmp_path, {"fatwheel.yml": config, "pyproject.toml": project, "setup.py": setup, "a.cpp": header})
    )
    assert [str(item.cell.torch) for item in plan.covered] == covered
    assert [str(job.torch) for job in plan.jobs] == built_with
    assert {item.reason for item in plan.skipped} == ({UNBUILT} if len(covered) == 1 else set())
