"""A project that does not declare what its build needs: the config does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ci_tools.build.jobs import build
from ci_tools.errors import MachineError
from ci_tools.plan.make import make_plan
from ci_tools.verify.files import CHECKS
from tests.builders.sources import write
from tests.integration.conftest import CommandLine
from tests.servers.package_index import index_of
from tests.unit.build.sdk.test_torch_choice import outside_of, torch_wheel

pytestmark = pytest.mark.slow

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
CONFIG = f"""\
package: demo
version: "1.0"
python: ["{PYTHON}"]
platforms:
  linux-cpu: {{owner: "@demo/cpu", wheel-platform: linux}}
build: {{requires: ["pathspec>=0.12", "setuptools>=61"]}}
"""
# As FBGEMM's, which imports a package that no file of it declares.
SETUP = """\
import pathspec
from setuptools import Extension, setup
assert pathspec.__version__
setup(name="demo", version="1.0", ext_modules=[Extension("demo", ["demo.c"])])
"""
SOURCE = """\
#include <Python.h>
static struct PyModuleDef demo = {PyModuleDef_HEAD_INIT, "demo"};
PyMODINIT_FUNC PyInit_demo(void) { return PyModule_Create(&demo); }
"""


def test_what_a_project_fails_to_declare_is_installed_for_its_build(fatwheel: CommandLine, tmp_path: Path) -> None:
    write(tmp_path, {"fatwheel.yml": CONFIG, "setup.py": SETUP, "demo.c": SOURCE})
    ran = fatwheel("build", "--job", f"linux-cpu-cp{PYTHON.replace('.', '')}", "--out", "dist", cwd=tmp_path)
    assert ran.status == 0, ran.stderr
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.name.startswith(f"demo-1.0-cp{PYTHON.replace('.', '')}-")
    without = CONFIG.replace('"pathspec>=0.12", ', "")
    write(tmp_path, {"fatwheel.yml": without})
    ran = fatwheel("plan", cwd=tmp_path)
    said = "'pathspec', which no build requirement has: name it in the config, `build: {requires: [pathspec]}`"
    assert said in " ".join((ran.stdout + ran.stderr).split())


OF_TORCH = {
    "pyproject.toml": '[build-system]\nrequires = ["setuptools", "torch"]\nbuild-backend = "setuptools.build_meta"\n',
    "setup.py": "from setuptools import setup\nfrom torch.utils.cpp_extension import BuildExtension, CppExtension\n"
    'setup(name="demo", version="1.0", ext_modules=[CppExtension("demo", ["demo.cpp"])],\n'
    '      cmdclass={"build_ext": BuildExtension})\n',
    "demo.cpp": "#include <torch/extension.h>\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}\n",
    "fatwheel.yml": CONFIG.partition("build:")[0].replace("platforms", 'torch: ["2.13"]\nplatforms'),
}


def test_a_torch_for_another_accelerator_is_said_before_anything_is_built(tmp_path: Path) -> None:
    project, wheel = write(tmp_path / "demo", OF_TORCH), torch_wheel(tmp_path, "2.13.0", "13.0")
    with index_of("torch", {wheel.name: wheel.read_bytes()}) as index:
        outside = outside_of(tmp_path, index.url)
        planned = make_plan(project / "fatwheel.yml", outside)
        (job,) = planned.plan.jobs
        with pytest.raises(MachineError) as caught:
            build(planned, ["sdist", job.name], tmp_path / "dist", outside, CHECKS)
    assert caught.value.message == f"{job.name}: the build would get torch 2.13.0 for cu130, expected 2.13 for cpu"
    assert not (tmp_path / "dist").exists()
