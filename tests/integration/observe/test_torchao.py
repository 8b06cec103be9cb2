"""A build of TorchAO's shape: one library more with a newer torch, and switches that are its users' to set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_tools.errors import InputError
from ci_tools.model.plan import Plan
from ci_tools.model.versions import Minor
from ci_tools.plan import plan_file, plan_reader
from tests.builders.sources import plan_of, write

pytestmark = pytest.mark.slow  # many real processes

CONFIG = """\
package: demo
python: ["3.10", "3.12", "3.14"]
torch: ["2.10", "2.11", "2.14"]
build: {env: {VERSION_SUFFIX: ""}}
platforms:
  linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0"]}
  linux-rocm: {rocm: ["7.1", "7.2"]}
  linux-cpu:
  macos-arm64: {owner: "@demo/macos"}
"""
SETUP = """\
import glob, os, platform, re, subprocess
from setuptools import Extension, setup
import torch
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CUDAExtension

suffix = os.getenv('VERSION_SUFFIX')
if suffix is None:
    suffix = '+git'

def newer(least):
    return [int(part) for part in re.match(r'(\\d+)\\.(\\d+)', torch.__version__).groups()] >= least

def target(version):
    flags = ['-DPy_LIMITED_API=0x030A0000', '-DTORCH_TARGET_VERSION=' + version]
    return {'cxx': flags, 'nvcc': flags + ['-gencode=arch=compute_90,code=sm_90']}

class CMakeExtension(Extension):
    def __init__(self, name):
        super().__init__(name, sources=[])

class Build(BuildExtension):
    def build_extensions(self):
        named = [one for one in self.extensions if isinstance(one, CMakeExtension)]
        for one in named:
            os.makedirs(self.build_temp, exist_ok=True)
            subprocess.check_call(['cmake', os.path.abspath('demo/csrc/cpu')], cwd=self.build_temp)
            subprocess.check_call(['cmake', '--build', '.'], cwd=self.build_temp)
        self.extensions = [one for one in self.extensions if one not in named]
        super().build_extensions()
        self.extensions += named

extensions = []
if torch.version.cuda and CUDA_HOME:
    extensions.append(CUDAExtension('demo._C', ['demo/csrc/a.cu'], py_limited_api=True,
                                    extra_compile_args=target('0x020a000000000000')))
    if newer([2, 11]):
        extensions.append(CUDAExtension('demo._C_new', ['demo/csrc/new.cu'],
                                        extra_compile_args=target('0x020b000000000000')))
is_apple = platform.machine() == 'arm64' and platform.system() == 'Darwin'
if is_apple or os.getenv('BUILD_EXPERIMENTAL') == '1':
    extensions.append(CMakeExtension('demo._C_experimental'))

setup(name='demo', version='0.19.0' + suffix, packages=['demo'], include_package_data=True,
      ext_modules=extensions,
      cmdclass={'build_ext': Build}, options={'bdist_wheel': {'py_limited_api': 'cp310'}})
"""
LOADER = """\
from pathlib import Path

import torch

files = list(Path(__file__).parent.glob('_C*.so'))
for file in files:
    try:
        torch.ops.load_library(str(file))
    except Exception as error:
        print(f'{file} is not loaded: {error}')
"""
PYTHON = "#include <Python.h>\n"
STABLE = "#include <torch/csrc/stable/library.h>\n"
FILES = {
    "setup.py": SETUP,
    "demo/__init__.py": LOADER,
    "demo/csrc/a.cu": STABLE,
    "demo/csrc/new.cu": STABLE,
    "demo/csrc/cpu/CMakeLists.txt": "cmake_minimum_required(VERSION 3.19)\nproject(cpu)\nfind_package(Torch)\n"
    "add_library(_C_experimental SHARED op.cpp)\n",
    "demo/csrc/cpu/op.cpp": "#include <torch/library.h>\n",
}


def planned(folder: Path, config: str = CONFIG, **changed: str) -> Plan:
    """Return the plan of the project, with some of its files changed: `loader` or `setup`."""
    files = {**FILES, "fatwheel.yml": config, "demo/__init__.py": changed.get("loader", LOADER)}
    return plan_of(write(folder / "a", {**files, "setup.py": changed.get("setup", SETUP)}))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planned(tmp_path_factory.mktemp("torchao"))


def reasons(plan: Plan, platform: str, torch: str) -> set[str]:
    """Return why the cells of a platform and a torch are covered."""
    cells = (item for item in plan.covered if (item.cell.platform, str(item.cell.torch)) == (platform, torch))
    return {item.reason for item in cells}


def test_there_is_a_pure_wheel_one_for_cuda_and_one_per_torch_for_macos(plan: Plan) -> None:
    assert [str(job.wheel) for job in plan.jobs] == [
        "demo-0.19.0-py3-none-any.whl",
        "demo-0.19.0+cu130-cp310-abi3-manylinux_2_28_x86_64.whl",
        *(f"demo-0.19.0+torch{torch}-cp310-abi3-macosx_11_0_arm64.whl" for torch in ("2.10", "2.11", "2.14")),
    ]
    pure = {item.cell.platform for item in plan.covered if item.job == "pure"}
    assert pure == {"linux-rocm", "linux-cpu"}


def test_the_wheel_is_built_with_the_oldest_torch_that_makes_every_library(plan: Plan) -> None:
    job = next(job for job in plan.jobs if job.platform == "linux-cuda")
    new = "demo/_C_new.cpython-310-x86_64-linux-gnu.so"
    assert (str(job.torch), job.spared) == ("2.11", ((new, Minor(2, 11)),))
    sources = ("demo/csrc/a.cu", "demo/csrc/new.cu")  # setuptools takes them for data of the package
    assert job.members == ("demo/_C.abi3.so", new, "demo/__init__.py", *sources)


def test_an_older_torch_is_served_without_the_library_that_it_cannot_load(plan: Plan) -> None:
    (without,) = reasons(plan, "linux-cuda", "2.10")
    assert "one for every torch from 2.10 up (demo/csrc/a.cu:1" in without
    end = (
        "; without demo/_C_new, which needs torch 2.11: demo/__init__.py:8 passes over a library that cannot be loaded"
    )
    assert without.endswith(end)
    assert not any("without demo/_C_new" in reason for reason in reasons(plan, "linux-cuda", "2.11"))


def test_one_python_builds_the_library_that_is_named_for_it(plan: Plan) -> None:
    job = next(job for job in plan.jobs if job.platform == "linux-cuda")
    assert (str(job.python), job.python_stays) == ("3.10", True)


def test_a_switch_that_stands_for_no_hardware_stays_off_and_is_listed(plan: Plan) -> None:
    assert {job.env for job in plan.jobs} == {(("VERSION_SUFFIX", ""),)}
    listed = "no kernel is compiled for it, though the source has demo/csrc/a.cu; off by default: BUILD_EXPERIMENTAL"
    assert plan.warnings == (f"linux-rocm: {listed} (setup.py:40)",)


def test_the_plan_is_read_back_as_it_was_written(plan: Plan) -> None:
    written = plan_file.to_json(plan)
    assert [job["spared"] for job in written["jobs"] if job["spared"]] == [
        {"demo/_C_new.cpython-310-x86_64-linux-gnu.so": "2.11"}
    ]
    assert plan_reader.plan_of(json.loads(json.dumps(written))) == plan


ONLY_CUDA = CONFIG.partition("  linux-rocm")[0]
RAISING = "        raise RuntimeError(file) from error\n"
OWN_NAMES = "for name in ('_C.abi3.so', '_C_new.so'):\n    torch.ops.load_library(Path(__file__).parent / name)\n"


@pytest.mark.parametrize(
    "loader",
    [
        pytest.param(LOADER.rpartition("        print")[0] + RAISING, id="a-loader-that-raises"),
        pytest.param(LOADER.replace("_C*.so", "_C.abi3.so"), id="a-pattern-without-the-library"),
        pytest.param(f"from pathlib import Path\nimport torch\n{OWN_NAMES}", id="names"),
        pytest.param("", id="no-loader"),
    ],
)
def test_a_wheel_that_its_loader_may_not_load_on_an_older_torch_is_not_for_it(loader: str, tmp_path: Path) -> None:
    what = r"linux-cuda is asked to serve torch 2\.10, but the source needs 2\.11 \(demo/csrc/new\.cu:1"
    with pytest.raises(InputError, match=what):
        planned(tmp_path, ONLY_CUDA, loader=loader)


def test_a_tag_that_a_library_for_one_python_may_break_is_foretold_and_left_to_the_audit(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    write(folder, {**FILES, "fatwheel.yml": ONLY_CUDA.replace('"2.10", ', ""), "demo/csrc/new.cu": f"{STABLE}{PYTHON}"})
    plan = plan_of(folder)
    assert {str(job.python) for job in plan.jobs} == {"3.10"}  # that builds for all
    (warning,) = plan.warnings
    assert "demo/_C_new is compiled for one Python (demo/csrc/new.cu:2: includes Python.h)" in warning


def test_a_local_version_is_refused_after_one_build_with_the_line_that_makes_it(tmp_path: Path) -> None:
    what = r"setup\.py:6: VERSION_SUFFIX, which is not set, makes the version 0\.19\.0\+git, expected a public one"
    with pytest.raises(InputError, match=what) as caught:
        planned(tmp_path, CONFIG.replace('build: {env: {VERSION_SUFFIX: ""}}\n', ""))
    assert caught.value.hint == '`build: {env: {VERSION_SUFFIX: ""}}` in the config gives 0.19.0'
