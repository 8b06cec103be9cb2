"""A wheel for an older glibc than this machine's, built in an image, installed here and imported.

The image is PyPA's, or the one that FATWHEEL_TEST_IMAGE names: it has to have this Python, a C++ compiler and a glibc
no newer than 2.31.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ci_tools.build.containers.engines import Engine, fetch_image, find_engine, find_image
from ci_tools.build.toolchain import libc
from ci_tools.errors import MachineError
from ci_tools.formats import receipts
from ci_tools.machine.runner import host
from tests.builders.sources import write
from tests.integration.conftest import CommandLine

OWN = f"{sys.version_info[0]}.{sys.version_info[1]}"
GLIBC = re.fullmatch(r"glibc 2\.(\d+)", libc())
IMAGE = os.environ.get("FATWHEEL_TEST_IMAGE") or "quay.io/pypa/manylinux_2_28_x86_64"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(host() != "linux-x86_64", reason="the image is for Linux on x86-64"),
    pytest.mark.skipif(not GLIBC or int(GLIBC[1]) < 34, reason="this machine's glibc is old enough"),
]
CONFIG = f"""\
package: demo
python: ["{OWN}"]
platforms:
  linux-cpu: {{owner: "@demo/cpu", native: ["*.cpp"], wheel-platform: manylinux_2_31, container: "{IMAGE}"}}
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
setup(name="demo", version="1.0", packages=["demo"], ext_modules=[Extension("demo._words", ["words.cpp"])])
"""
# pthread_create is in libc.so.6 since glibc 2.34, and has that version: what is linked on a newer machine asks for it.
WORDS = """\
#include <Python.h>
#include <pthread.h>
#include <string>
static void *say(void *said) { *static_cast<std::string *>(said) = "from an older glibc"; return nullptr; }
static PyObject *greet(PyObject *, PyObject *) {
  std::string said;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, say, &said) == 0) pthread_join(thread, nullptr);
  return PyUnicode_FromStringAndSize(said.data(), said.size());
}
static PyMethodDef methods[] = {{"greet", greet, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_words", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit__words() { return PyModule_Create(&module); }
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """An engine that answers and has the image."""
    environ = {name: value for name, value in os.environ.items() if name != "FATWHEEL_CONTAINERS"}
    found = find_engine(environ)
    if found is None:
        pytest.skip("neither podman nor docker answers")
    try:
        if find_image(IMAGE, found, environ) is None:
            fetch_image(IMAGE, found, tmp_path_factory.mktemp("image") / "log", environ)
    except MachineError as error:
        pytest.skip(error.message)
    return found


def test_a_wheel_is_built_in_its_image_and_imported_here(tmp_path: Path, fatwheel: CommandLine, engine: Engine) -> None:
    project = tmp_path / "project"
    files = {"fatwheel.yml": CONFIG, "pyproject.toml": PROJECT, "setup.py": SETUP, "words.cpp": WORDS}
    write(project, {**files, "demo/__init__.py": ""})
    words = ("build", "--job", f"linux-cpu-cp{OWN.replace('.', '')}", "--out", "dist")
    built = fatwheel(*words, cwd=project, FATWHEEL_CONTAINERS=engine.name)
    assert f"is built in {IMAGE} by {engine.name}: this machine's glibc 2." in built.stderr
    wheel = next((project / "dist").glob("demo-1.0-*-manylinux_2_31_x86_64.whl"))
    receipt = receipts.load(wheel)
    assert receipt is not None
    assert receipt.built_with.image.startswith(IMAGE)
    assert receipt.built_with.python.startswith(f"CPython {OWN}.")
    assert wheel.stat().st_uid == os.getuid()

    with zipfile.ZipFile(wheel) as archive:
        library = archive.read(next(name for name in archive.namelist() if name.endswith(".so")))
    assert b"pthread_create" in library
    assert b"GLIBC_2.34" not in library
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", wheel], check=True)
    asked = [python, "-c", "from demo import _words; print(_words.greet())"]
    said = subprocess.run(asked, check=True, capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout.strip() == "from an older glibc"

    again = fatwheel(*words, cwd=project, FATWHEEL_CONTAINERS=engine.name)
    assert "nothing it depends on has changed" in again.stderr
    left = [engine.program, "ps", "--all", "--quiet", "--filter", f"label=fatwheel={os.getuid()}"]
    assert not subprocess.run(left, check=True, capture_output=True, text=True).stdout
