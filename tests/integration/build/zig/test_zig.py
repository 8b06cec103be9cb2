"""Wheels that zig compiles because this machine's glibc is newer than their platform tag, from the index to an import.

zig is fetched, and its C++ library compiled, once for all runs: both are kept in the user's cache.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from ci_tools.build.toolchain import libc
from ci_tools.build.zig.compilers import open_compilers
from ci_tools.machine.context import Outside, Silent
from ci_tools.machine.runner import host
from ci_tools.machine.storage import cache_folder
from tests.builders.sources import write

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import CommandLine

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
LEVEL = "manylinux_2_28"
GLIBC = re.fullmatch(r"glibc 2\.(\d+)", libc())
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(host() != "linux-x86_64", reason="the wheels are for Linux on x86-64"),
    pytest.mark.skipif(not GLIBC or int(GLIBC[1]) < 34, reason="gcc on this machine keeps to an older glibc"),
]
CONFIG = f"""\
package: demo
python: ["{OWN}"]
platforms:
  linux-cpu: {{owner: "@demo/cpu", native: ["*.cpp"], wheel-platform: {LEVEL}}}
"""
PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "demo"
version = "1.0"
"""
SETUP = """\
from setuptools import Extension, setup
made = [Extension("demo._thrower", ["thrower.cpp"]), Extension("demo._catcher", ["catcher.cpp"])]
setup(name="demo", version="1.0", packages=["demo"], ext_modules=made)
"""
START = """\
#include <Python.h>
#include <exception>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <string>
"""
# An exception leaves the module that has thrown it, as those of pybind11's modules do: to be told apart in another one.
THROWER = """\
static PyObject *hold(PyObject *, PyObject *) {
  auto thrown = std::async(std::launch::async, [] {
    try { throw std::out_of_range(std::filesystem::path("far/away").filename().string()); }
    catch (...) { return std::current_exception(); }
    return std::exception_ptr();
  }).get();
  auto drop = [](PyObject *held) { delete static_cast<std::exception_ptr *>(PyCapsule_GetPointer(held, nullptr)); };
  return PyCapsule_New(new std::exception_ptr(thrown), nullptr, drop);
}
"""
CATCHER = """\
static PyObject *name(PyObject *, PyObject *held) {
  try { std::rethrow_exception(*static_cast<std::exception_ptr *>(PyCapsule_GetPointer(held, nullptr))); }
  catch (const std::invalid_argument &) { return PyUnicode_FromString("invalid_argument"); }
  catch (const std::logic_error &error) { return PyUnicode_FromFormat("logic_error: %s", error.what()); }
  catch (...) { return PyUnicode_FromString("unknown"); }
}
"""
END = """\
static PyMethodDef methods[] = {{"%(name)s", %(name)s, %(kind)s, nullptr}, {nullptr, nullptr, 0, nullptr}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_%(module)s", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__%(module)s() { return PyModule_Create(&module); }
"""
FILES = {
    "fatwheel.yml": CONFIG,
    "pyproject.toml": PROJECT,
    "setup.py": SETUP,
    "demo/__init__.py": "",
    "thrower.cpp": START + THROWER + END % {"name": "hold", "kind": "METH_NOARGS", "module": "thrower"},
    "catcher.cpp": START + CATCHER + END % {"name": "name", "kind": "METH_O", "module": "catcher"},
}
TRIAL = "from demo import _thrower, _catcher; print(_catcher.name(_thrower.hold()))"


def test_what_gcc_cannot_keep_to_is_compiled_by_zig(tmp_path: Path, fatwheel: CommandLine) -> None:
    # The first call of a target takes minutes on a busy machine, more than a command line is given here.
    zig = open_compilers(
        f"{LEVEL}_x86_64", Outside(environ=os.environ, cache=cache_folder(os.environ), reporter=Silent())
    )
    root = write(tmp_path / "demo", FILES)
    job = f"linux-cpu-cp{OWN.replace('.', '')}"
    ran = fatwheel("build", "--job", job, "--out", "dist", cwd=root)
    assert ran.status == 0, ran.stderr
    assert re.search(rf"{job}: what c\+\+-\S+ has compiled keeps to manylinux_2_3\d_x86_64 only, so it is", ran.stderr)
    assert f"{job} is compiled by zig {zig.version} for x86_64-linux-gnu.2.28" in ran.stderr
    (wheel,) = (root / "dist").glob("*.whl")
    assert f"{LEVEL}_x86_64" in wheel.name
    assert fatwheel("audit", wheel, cwd=root).status == 0
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    command = [sys.executable, "-c", TRIAL]
    done = subprocess.run(command, cwd=tmp_path / "site", capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("logic_error: away\n", "")
    again = fatwheel("release", "--out", "dist", "--to", "dir:index", cwd=root)  # with a trial of the sdist
    assert (again.status, f"keep {wheel.name}" in again.stderr) == (0, True), again.stderr + again.stdout
    assert '"compiler": "zig 0.17.0 (clang' in (root / "dist/receipts" / f"{wheel.name}.json").read_text()
