"""What mends a plan that is refused, or whose wheel has a tag that is too low: tried on a copy before it is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders.advised import apply_patch, planned_of
from tests.builders.sources import demo
from tests.integration.conftest import CommandLine

pytestmark = pytest.mark.slow  # many real processes

CONFIG = """\
package: demo
version: "1.0"
python: ["3.12"]
torch: ["2.13"]
platforms:
  linux-cuda: {owner: us, cuda: ["13.0"], archs: ["9.0"]}
"""
GUARDED = """\
import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension

use_cuda = torch.cuda.is_available() and CUDA_HOME is not None
sources = ["a.cpp"] + (["k.cu"] if use_cuda else [])
extension = CUDAExtension if use_cuda else CppExtension
setup(name="demo", version="1.0", ext_modules=[extension("_C", sources)], cmdclass={"build_ext": BuildExtension})
"""
BY_DRIVER = GUARDED.replace("torch.cuda.is_available()", 'shutil.which("nvidia-smi")').replace("torch", "shutil", 1)
LABELLED = """\
from setuptools import Extension, setup
macros = [("Py_LIMITED_API", "0x030C0000")]
setup(name="demo", version="1.0", options={"bdist_wheel": {"py_limited_api": "cp310"}},
      ext_modules=[Extension("_C", ["a.c"], py_limited_api=True, define_macros=macros)])
"""
CPU = 'package: demo\nversion: "1.0"\npython: ["3.12"]\nplatforms:\n  linux-cpu: {owner: us}\n'


@pytest.mark.parametrize(
    ("files", "name", "line"),
    [
        pytest.param({"fatwheel.yml": CONFIG, "setup.py": GUARDED, "a.cpp": "", "k.cu": ""}, "gpu-guard",
                     '+use_cuda = (torch.cuda.is_available() or os.environ.get("FORCE_CUDA") == "1") and CUDA_HOME',
                     id="kernels-that-wait-for-a-gpu", marks=pytest.mark.long),
        pytest.param({"fatwheel.yml": f"{CONFIG}  linux-cpu:\n", "setup.py": BY_DRIVER, "a.cpp": "", "k.cu": ""},
                     "gpu-guard", '+use_cuda = (shutil.which("nvidia-smi") or os.environ.get("FORCE_CUDA") == "1") and',
                     id="kernels-of-one-platform-that-wait-for-a-driver"),
        pytest.param({"fatwheel.yml": CPU, "setup.py": LABELLED, "a.c": "#include <Python.h>\n"}, "python-tag",
                     '"cp312"', id="a-tag-below-its-limited-api"),
    ],
)  # fmt: skip
def test_advise_mends_what_a_plan_says(
    files: dict[str, str], name: str, line: str, tmp_path: Path, fatwheel: CommandLine
) -> None:
    folder = demo(tmp_path / "a", {"pyproject.toml": "", **files})
    advised = json.loads(fatwheel("advise", "--format", "json", folder / "fatwheel.yml").stdout)["advice"]
    (advice,) = [one for one in advised if one["name"] == name]
    assert line in advice["patch"]
    apply_patch(advice["patch"], folder)
    assert not [warning for warning in planned_of(folder).plan.warnings if "too low" in warning]
