"""An Arm wheel that is compiled, proven and audited on an x86-64 machine, by a real cross compiler."""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from ci_tools.build.cross import COMPILER, FROM, replace_stubs
from ci_tools.build.sdk.lending import LENT
from ci_tools.build.sdk.link_stubs import exports_of, make_stub
from ci_tools.formats.binaries.elf import Extent, read_elf
from ci_tools.machine.python import Environment
from ci_tools.machine.runner import host
from tests.builders.sources import write
from tests.integration.conftest import CommandLine

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(host() != FROM, reason=f"compiles for Arm on {FROM}"),
    pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"{COMPILER} is not on PATH"),
]

CONFIG = """\
package: demo
python: ["{python}"]
platforms:
  linux-aarch64: {{owner: "@demo/arm", native: ["*.cpp"], wheel-platform: manylinux_2_36}}
"""
RUST = """\
package: bit-count
python: ["{python}"]
platforms:
  linux-cpu: {{owner: "@demo/cpu", native: ["src/*.rs"]}}
  linux-aarch64: {{owner: "@demo/arm", native: ["src/*.rs"]}}
"""
SETUP = """\
from setuptools import Extension, setup
setup(name="demo", version="1.0", packages=["demo"], ext_modules=[Extension("demo._C", ["demo.cpp"])])
"""
PROJECT = '[build-system]\nrequires = ["{}"]\nbuild-backend = "{}"\n[project]\nname = "demo"\nversion = "1.0"\n'
CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(demo LANGUAGES CXX)
find_package(Python COMPONENTS Interpreter Development.Module REQUIRED)
python_add_library(_C MODULE demo.cpp WITH_SOABI)
install(TARGETS _C DESTINATION demo)
"""
MESON = """\
project('demo', 'cpp', version: '1.0')
py = import('python').find_installation(pure: false)
py.install_sources('demo/__init__.py', subdir: 'demo')
py.extension_module('_C', 'demo.cpp', install: true, subdir: 'demo')
"""
CODE = """\
#include <Python.h>
#ifndef __aarch64__
#error "this is compiled for another machine"
#endif
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", 0, -1, 0};
PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
"""
# FindPython asks no Python for a suffix where it compiles for another machine; Python loads a library without one, too.
BY = {
    "setuptools": ("setuptools.build_meta", {"setup.py": SETUP}, ".cpython-{}-aarch64-linux-gnu.so"),
    "scikit-build-core": ("scikit_build_core.build", {"CMakeLists.txt": CMAKE}, ".so"),
    "meson-python": ("mesonpy", {"meson.build": MESON}, ".cpython-{}-aarch64-linux-gnu.so"),
}
MACHINE = 183  # EM_AARCH64 (elf.h)


@pytest.mark.parametrize("requires", BY)
def test_an_extension_is_compiled_for_arm(requires: str, tmp_path: Path, fatwheel: CommandLine) -> None:
    backend, files, suffix = BY[requires]
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    files |= {"fatwheel.yml": CONFIG.format(python=own), "pyproject.toml": PROJECT.format(requires, backend)}
    root = write(tmp_path / "demo", {"demo.cpp": CODE, "demo/__init__.py": "", **files})
    tag = f"cp{own.replace('.', '')}"
    ran = fatwheel("build", "--job", f"linux-aarch64-{tag}", "--out", "dist", cwd=root)
    assert ran.status == 0, ran.stderr
    assert f"is compiled for linux-aarch64 by {COMPILER}" in ran.stderr
    (wheel,) = (root / "dist").glob("*.whl")
    assert wheel.name == f"demo-1.0-{tag}-{tag}-manylinux_2_36_aarch64.whl"
    with zipfile.ZipFile(wheel) as archive:
        (library,) = (name for name in archive.namelist() if name.endswith(".so"))
        archive.extract(library, tmp_path)
    assert library == f"demo/_C{suffix.format(tag[2:])}"
    with (tmp_path / library).open("rb") as file:
        assert read_elf(Extent.whole(file)).machine == MACHINE
    assert fatwheel("audit", wheel, cwd=root).status == 0


def test_a_wheel_of_rust_is_left_to_an_arm_machine(tmp_path: Path, fatwheel: CommandLine) -> None:
    root = shutil.copytree(Path(__file__).parents[3] / "samples/maturin", tmp_path / "rust")
    write(root, {"fatwheel.yml": RUST.format(python=f"{sys.version_info[0]}.{sys.version_info[1]}")})
    ran = fatwheel("release", "--to", "dir:index", cwd=root)
    assert ran.status == 3
    assert "this machine cannot build 1 of 2 jobs:\n  linux-aarch64: linux-aarch64 wheels of this project" in ran.stderr
    assert 'cargo compiles for that one only (the build requires "maturin>=1.8,<2")' in ran.stderr
    assert "--here goes on with the rest, and says so" in ran.stderr


def test_what_a_build_links_with_in_place_of_torch_is_for_arm_too(tmp_path: Path) -> None:
    stub = tmp_path / LENT / "torch/lib/libtorch.so"
    symbols = {"torch_call_dispatcher": False, "_ZTVN2at6TensorE": True}
    make_stub(stub, symbols, tmp_path / "log")
    replace_stubs(Environment(path=tmp_path, variables={}, log=tmp_path / "log"))
    with stub.open("rb") as file:
        assert read_elf(Extent.whole(file)).machine == MACHINE
    assert exports_of(stub) == symbols
