"""A build of TorchAO's shape: a wheel of one library more with a newer torch, and switches that are its users' to set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.sources import plan_of, write

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.model.plan import Plan

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

setup(name='demo', version='0.19.0' + suffix, packages=['demo'], ext_modules=extensions,
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
STABLE = "#include <torch/csrc/stable/library.h>\n"
FILES = {
    "setup.py": SETUP,
    "demo/__init__.py": LOADER,
    "demo/csrc/a.cu": STABLE,
    "demo/csrc/new.cu": STABLE,
    "demo/csrc/cpu/CMakeLists.txt": "project(cpu)\nfind_package(Torch)\nadd_library(_C_experimental SHARED op.cpp)\n",
    "demo/csrc/cpu/op.cpp": "#include <torch/library.h>\n",
}


def planned(folder: Path, config: str = CONFIG, **changed: str) -> Plan:
    """Return the plan of the project, with some of its files changed: `loader` or `setup`."""
    files = {**FILES, "fatwheel.yml": config, "demo/__init__.py": changed.get("loader", LOADER)}
    return plan_of(write(folder / "a", {**files, "setup.py": changed.get("setup", SETUP)}))


def test_one_wheel_serves_what_a_platform_needs(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert [job.name for job in plan.jobs] == []
