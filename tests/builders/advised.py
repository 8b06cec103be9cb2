"""Projects that could do with fewer wheels, and what is advised to them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ci_tools.plan import make
from ci_tools.plan.advise.advice import Advised
from ci_tools.plan.make import Planned
from ci_tools.verify import patches
from ci_tools.verify.patches import Patched
from tests.builders.sources import PROJECT, shared_world

# The marks of the tests that look at them.
OBSERVED = [
    pytest.mark.skipif(sys.platform != "linux", reason="what setup.py builds is observed on Linux"),
    pytest.mark.slow,  # many real processes
]
SETUPTOOLS = '[build-system]\nrequires = ["setuptools==80.9.0"]\nbuild-backend = "setuptools.build_meta"\n'
SCIKIT = """\
[build-system]
requires = ["scikit-build-core==0.11.6"]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1.0"
[tool.scikit-build]
minimum-version = "0.11"
"""
PYTHONS = 'package: demo\npython: ["3.10", "3.11", "3.12", "3.13"]\n'
CPU = "platforms:\n  linux-cpu: {owner: us}\n"
CUDA = 'platforms:\n  linux-cuda:\n    owner: us\n    cuda: ["12.6", "12.9", "13.0"]\n    archs: ["9.0"]\n'
TORCHES = 'torch: ["2.12", "2.13"]\n'
MODULE = """\
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_demo", "", -1, NULL};
PyMODINIT_FUNC PyInit__demo(void) { return PyModule_Create(&module); }
"""
EXTENSION = """\
from setuptools import Extension, setup

setup(
    name="demo",
    version="1.0",
    ext_modules=[
        Extension(
            "_demo",
            ["demo.c"],  # all there is
        ),
    ],
)
"""
TORCH = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="demo",
    version="1.0",
    ext_modules=[CppExtension("demo._C", ["a.cpp", "b.cpp"], extra_compile_args=["-O3"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(demo LANGUAGES C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
Python_add_library(_demo MODULE demo.c WITH_SOABI)
"""
STABLE = {"a.cpp": "#include <torch/csrc/stable/library.h>\n", "b.cpp": ""}
C_EXTENSION = {"fatwheel.yml": PYTHONS + CPU, "pyproject.toml": SETUPTOOLS, "setup.py": EXTENSION, "demo.c": MODULE}
PYBIND = {**C_EXTENSION, "demo.c": "#include <pybind11/pybind11.h>\n#include <Python.h>\n"}
UNSTABLE = {
    "fatwheel.yml": PYTHONS + TORCHES + CPU,
    "pyproject.toml": SETUPTOOLS,
    "setup.py": TORCH,
    "a.cpp": "#include <torch/library.h>\n#include <ATen/ATen.h>\n",
    "b.cpp": '#include "b.h"\n',
    "b.h": "#include <c10/core/Device.h>\n",
}
UNTARGETED = {"fatwheel.yml": PYTHONS + TORCHES + CPU, "pyproject.toml": SETUPTOOLS, "setup.py": TORCH, **STABLE}
SCIKIT_MODULE = {
    "fatwheel.yml": PYTHONS + CPU, "pyproject.toml": SCIKIT, "CMakeLists.txt": CMAKE, "demo.c": MODULE,
}  # fmt: skip
FREE_THREADED = {**C_EXTENSION, "fatwheel.yml": PYTHONS.replace('"3.13"', '"3.13", "3.14t"') + CPU}
MINORS = {"fatwheel.yml": PYTHONS + CUDA, "pyproject.toml": f"{SCIKIT}wheel.py-api = 'py3'\n", "CMakeLists.txt": ""}

ONE_PER_MAJOR = {**MINORS, "fatwheel.yml": f"{PYTHONS}{CUDA}    one-per-major: true\n"}
BEYOND = {**C_EXTENSION, "demo.c": f"{MODULE}#define SIZE(o) PyTuple_GET_SIZE(o)\n"}
HIDDEN = {**C_EXTENSION, "setup.py": EXTENSION.replace("\n    version", "\n    **{},\n    version")}
MESON = {
    "fatwheel.yml": PYTHONS + CPU,
    "pyproject.toml": PROJECT.replace("flit_core.buildapi", "mesonpy"),
    "meson.build": "project('demo', 'c')\npy = import('python').find_installation(pure: false)\n"
    "py.extension_module('_demo', 'demo.c', install: true)\n",
    "demo.c": MODULE,
}
NEWER = {
    **SCIKIT_MODULE,
    "pyproject.toml": f"{SCIKIT}wheel.py-api = 'cp312'\n",
    "CMakeLists.txt": CMAKE.replace("Module)", "SABIModule)").replace("MODULE", "MODULE USE_SABI 3.12"),
}
CYTHON = {**SCIKIT_MODULE, "demo.pyx": "from libc.math cimport sin\n", "demo.c": ""}
FORTRAN = {**SCIKIT_MODULE, "demo.f90": "", "demo.c": ""}
RUST = {
    "fatwheel.yml": PYTHONS + CPU,
    "pyproject.toml": PROJECT.replace("flit_core.buildapi", "maturin"),
    "Cargo.toml": '[package]\nname = "demo"\nversion = "1.0.0"\n[lib]\ncrate-type = ["cdylib"]\n'
    '[dependencies]\npyo3 = "0.26"\n',
    "src/lib.rs": "",
}
NEEDLESS = {
    "fatwheel.yml": "package: demo\npython: ['3.12']\nplatforms:\n"
    "  linux-cpu: {owner: us, enabled: true}\n  macos-arm64:\n"
}
GLOBS = {"fatwheel.yml": f"{PYTHONS}platforms:\n  linux-cpu: {{owner: us, native: ['*.cu']}}\n", "k.cu": ""}


def planned_of(folder: Path) -> Planned:
    """Return the plan of a folder, and what it was made from."""
    return make.make_plan(folder / "fatwheel.yml", shared_world())


def consult(folder: Path) -> tuple[Planned, Advised, Sequence[Patched]]:
    """Return the plan of a folder, what is advised to it, and each advice with its patch."""
    planned = planned_of(folder)
    return planned, *patches.consult(planned, folder / "dist", shared_world())


def apply_patch(patch: str, folder: Path) -> None:
    """Apply a patch to a folder, with git."""
    subprocess.run(["git", "apply", "-"], cwd=folder, input=patch.encode(), check=True, capture_output=True)
