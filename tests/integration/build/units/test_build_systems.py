"""Every build system calls the launchers, unchanged, and makes the same bytes with a store and without one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from ci_tools.machine.storage import sha256_of
from tests.builders.equipped import install
from tests.builders.sources import committed, write
from tests.integration.conftest import CommandLine
from tests.integration.observe.test_hosts import NOBODY, ROOT

pytestmark = pytest.mark.long

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
CONFIG = f"""\
package: demo
version: "1.0"
python: ["{VERSION}"]
platforms:
  linux-cpu: {{owner: "@demo/cpu", wheel-platform: linux}}
"""
PROJECT = """\
[build-system]
requires = [{requires}]
build-backend = "{backend}"
[project]
name = "demo"
version = "1.0"
readme = "README.md"
"""
BINDING = """\
#include <Python.h>
int answer();
static PyModuleDef demo = {PyModuleDef_HEAD_INIT, "demo"};
PyMODINIT_FUNC PyInit_demo() { return answer() ? PyModule_Create(&demo) : nullptr; }
"""
SOURCES = {
    "kernel.cpp": "int answer() { return 42; }\n",
    "binding.cpp": BINDING,
    "fatwheel.yml": CONFIG,
    "README.md": "one\n",
}
SETUP = """\
from setuptools import Extension, setup
setup(py_modules=["beside"], ext_modules=[Extension("demo", ["binding.cpp", "kernel.cpp"], extra_compile_args=["-g"])])
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.24)
project(demo LANGUAGES CXX)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/made.cpp "const char* made() { return __FILE__; }\\n")
python_add_library(demo MODULE WITH_SOABI binding.cpp kernel.cpp ${CMAKE_CURRENT_BINARY_DIR}/made.cpp)
install(TARGETS demo DESTINATION .)
"""
MESON = """\
project('demo', 'cpp', version: '1.0')
import('python').find_installation().extension_module('demo', 'binding.cpp', 'kernel.cpp', install: true)
"""
CUDA_MESON = """\
project('demo', 'cpp', 'cuda', version: '1.0')
for_one = '-gencode=arch=compute_90,code=sm_90'
import('python').find_installation().extension_module('demo', 'binding.cpp', 'kernel.cu', install: true,
    cuda_args: [for_one, '-Xcompiler', '-fPIC'], link_args: for_one)
"""
OF_CUDA = {
    "meson.build": CUDA_MESON,
    "kernel.cu": "__global__ void k(int* x) { *x = 42; }\nint answer() { k<<<1, 1>>>(nullptr); return 42; }\n",
    "fatwheel.yml": CONFIG.replace("linux-cpu: {", 'linux-cuda: {cuda: ["13.0"], archs: ["9.0"], '),
}
PROJECTS = {
    "setuptools": ('"setuptools>=77"', "setuptools.build_meta", {"setup.py": SETUP, "beside.py": "one = 1\n"}, 2),
    "scikit-build-core": ('"scikit-build-core>=0.10"', "scikit_build_core.build", {"CMakeLists.txt": CMAKE}, 3),
    "meson": ('"meson-python"', "mesonpy", {"meson.build": MESON}, 2),
    "meson-with-cuda": ('"meson-python"', "mesonpy", OF_CUDA, 2),
}


def build(fatwheel: CommandLine, folder: Path, job: str, out: Path, **environ: str) -> tuple[str, list[str]]:
    """Build a job; return the wheel's digest and what was said of its units."""
    ran = fatwheel("build", "--job", job, "--out", str(out), cwd=folder, **environ)
    assert ran.status == 0, ran.stderr
    said = [line.partition(": ")[2] for line in ran.stderr.splitlines() if "compile units" in line]
    return sha256_of(next(out.glob("*.whl"))), said


@pytest.mark.parametrize("system", PROJECTS)
def test_the_second_build_compiles_and_links_nothing_nor_does_that_of_a_version_with_the_same_sources(
    system: str, fatwheel: CommandLine, tmp_path: Path
) -> None:
    requires, backend, files, units = PROJECTS[system]
    project = PROJECT.format(requires=requires, backend=backend)
    committed(write(tmp_path / "demo", {**SOURCES, **files, "pyproject.toml": project}))
    shutil.copytree(tmp_path / "demo", tmp_path / "another/demo")
    job = f"{'linux-cuda-cu130' if files is OF_CUDA else 'linux-cpu'}-cp{VERSION.replace('.', '')}"
    cache = {"FATWHEEL_CACHE": str(tmp_path / "cache")}
    place = {"FATWHEEL_UNITS": f"dir:{tmp_path}/place/units"}
    first = build(fatwheel, tmp_path / "demo", job, tmp_path / "1", **cache, **place)
    again = build(fatwheel, tmp_path / "another/demo", job, tmp_path / "2", **cache)
    without = build(fatwheel, tmp_path / "demo", job, tmp_path / "3", FATWHEEL_UNITS="off", **cache)
    assert (first[0], first[0]) == (again[0], without[0])
    assert first[1] == without[1] == []
    taken = [f"{units} compile units: {units} from the store, 0 compiled; 1 linked before"]
    assert again[1] == taken
    later = {"README.md": "two\n", **{name: "two = 2\n" for name in files if name.endswith("beside.py")}}
    for name in ("pyproject.toml", "fatwheel.yml"):
        later[name] = (tmp_path / "demo" / name).read_text(encoding="utf-8").replace('"1.0"', '"1.1"')
    committed(write(tmp_path / "demo", later))
    released = build(fatwheel, tmp_path / "demo", job, tmp_path / "4", FATWHEEL_CACHE=str(tmp_path / "own"), **place)
    whole = build(fatwheel, tmp_path / "demo", job, tmp_path / "5", FATWHEEL_UNITS="off", **cache)
    assert released == (whole[0], taken)
    assert released[0] != first[0]


# Without a function that other files see, nvcc names what it registers after its process (cases/same-bytes).
NAMELESS = """\
static __device__ int hidden;
template <class T> __global__ void k(T* x) { *x = hidden; }
int answer() { k<<<1, 1>>>(static_cast<float*>(nullptr)); return 42; }
"""
SYSTEMS_PYTHON = Path(f"/usr/bin/python{VERSION}")  # which everybody may run


def build_as(user: int, host: Path, home: Path, files: dict[str, str]) -> str:
    """Build the project in a user's home, with an empty cache; return the wheel's digest."""
    committed(write(home / "demo", files))
    subprocess.run(["chown", "-R", str(user), home], check=True)
    command: list[str | Path] = [
        host,
        "-m",
        "ci_tools",
        "build",
        "--job",
        f"linux-cuda-cu130-cp{VERSION.replace('.', '')}",
    ]
    told = {name: value for name, value in os.environ.items() if name == "PATH" or name.startswith("PIP_")}
    environ = {**told, "HOME": str(home)}
    subprocess.run([*command, "--out", home / "out"], cwd=home / "demo", env=environ, user=user, check=True)
    return sha256_of(next((home / "out").glob("*.whl")))


@pytest.mark.skipif(os.geteuid() != 0 or not SYSTEMS_PYTHON.exists(), reason="only root can be another user")
def test_another_user_in_another_folder_of_a_busy_machine_makes_the_same_bytes() -> None:
    requires, backend, _, _ = PROJECTS["meson-with-cuda"]
    project = PROJECT.format(requires=requires, backend=backend)
    files = {**SOURCES, **OF_CUDA, "kernel.cu": NAMELESS, "pyproject.toml": project}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        host = install(SYSTEMS_PYTHON, folder / "host", ROOT)
        own = build_as(os.geteuid(), host, folder / "own", files)
        with ExitStack() as others:  # that have most of the processors' time
            for _ in range(2 * (os.cpu_count() or 1)):
                process = others.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
                others.callback(process.kill)
            assert build_as(NOBODY, host, folder / "another/home", files) == own
