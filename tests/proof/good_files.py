"""The good files that mutants are made of."""

from __future__ import annotations

import functools
import io
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ci_tools.formats import receipts
from ci_tools.model.files import Finding, Level, Outcome, Trial, Validated
from ci_tools.plan import plan_file
from tests.builders import wheels
from tests.builders.releases import receipt
from tests.builders.sources import demo, plan_of, write

BACKENDS = ("flit_core.buildapi", "mesonpy", "scikit_build_core.build", "maturin", "hatchling.build")


def pyproject_of(backend: str, more: str = "") -> str:
    return f'[build-system]\nbuild-backend = "{backend}"\n[project]\nname = "demo"\nversion = "1"\n{more}'


WINDOWS = "demo-1.0-py3-none-win_amd64.whl"
YAML = """\
package: demo
version: "1.0"
python: ["3.10", "3.14t"]
torch: {lowest: "2.10"}
source: {include: ["*"]}
build: {env: {A: "1"}}
platforms:
  linux-cuda: {owner: "@demo", cuda: ["13.0"], archs: ["9.0", "10.0+PTX"], native: ["**/*.cu"]}
  windows:
publish: [dir:dist]
"""
TOML = pyproject_of(
    "scikit_build_core.build",
    """\
requires-python = ">=3.10"
dependencies = ["torch>=2.10", 'numpy; python_version < "3.12"']
[tool.scikit-build]
wheel.py-api = "cp310"
cmake.define.CMAKE_CUDA_ARCHITECTURES = "90"
[[tool.scikit-build.overrides]]
if.platform-system = "linux"
if.any = {env.A = true, python-version = ">=3.11"}
wheel.cmake = false
""",
)
PATTERNS = "*.cu\n**/kernels/*_?.cu\n!third_party/**/x*y*z\n/docs/\n[!a-c]*.h\n\\#a\n"
PRINTED = """fatal: unable to access 'https://me:word@host/x.git?token=a/': 403, git@host:o/r.git
GET https://host:8080/simple/?a=b#c, http://[::1]/a@b https%3A%2F%2Fme%3Aa%40host linux-cuda linux-cpu windows
"""
INI = "[metadata]\nname = demo\nversion = attr: demo.x\n[options]\ninstall_requires =\n    torch>=2\n    numpy\n"
MESON = """\
project('demo', 'c', version: '1.0', default_options: ['buildtype=release'])
py = import('python').find_installation(pure: false)
py.extension_module('a', 'a.c', install: true, limited_api: '3.11', c_args: ['-DX', '-gencode=arch=compute_90'])
foreach name : ['a', 'b']
  py.install_sources('demo.py', subdir: 'demo' / name) # text's
endforeach
message('''long
text''')
subdir('src')
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.26)
project(demo LANGUAGES CXX CUDA)
set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "of GPUs")
find_package(Torch REQUIRED) # comment
#[[ a long
comment ]]
if(WIN32)
  add_compile_definitions(TORCH_TARGET_VERSION=0x020a000000000000)
endif()
python_add_library(_C MODULE a.cpp USE_SABI 3.10 WITH_SOABI)
target_compile_options(_C PRIVATE -DTORCH_TARGET_VERSION=0x020a000000000000 "-gencode=arch=compute_90,code=sm_90")
"""
CPP = """\
// a comment
#ifndef GUARD
#define GUARD
#define TORCH_TARGET_VERSION 0x020a000000000000
#include <torch/csrc/stable/library.h>
#include "b.h"
#endif
/* long
comment */
static PyTypeObject type = {0};
PyObject *f(void) { return PyLong_FromLong(PyUnicode_GET_LENGTH(0) + type->tp_name); }
"""
CARGO = """\
[package]
name = "demo"
version = "1.0"
[lib]
crate-type = ["cdylib"]
[features]
default = ["x"]
x = ["pyo3/abi3-py310", "y?/z"]
[dependencies]
pyo3 = { version = "0.25", features = ["abi3"] }
[target.'cfg(unix)'.dependencies]
y = { workspace = true, optional = true }
[workspace]
dependencies = { y = "1" }
"""
WORD = "the word of an observer"
ANSWER = {
    "asked": {"python": "setup.py:1", "env:A": ""},
    "doubts": {"runs x": "setup.py:2"},
    "imports": {"torch": "setup.py:3"},
    "compiles": [{"source": "a.c", "object": "a.o", "compiler": "cc", "flags": ["-c", "-DX"]}],
    "links": [{"output": "a.so", "objects": ["a.o"], "libraries": ["m"], "flags": ["-s"], "compiled": 1}],
    "error": {"kind": "E", "text": "no", "place": "setup.py:1"}, "generated": {"b.c": "int x;"},
}  # fmt: skip
JOURNAL = (
    '{"asked": {"os": "setup.py:1"}, "by": 3}\n{"began": true, "by": 4}\n{"compiled": "a.c", "by": 4}\n'
    '{"linked": "a.so", "by": 3}\n{"ended": true, "by": 4}\ngcc -c a.c\n'
)
SHA256 = "0" * 64
FILE = (
    f'{{"name": "demo-1.0-py3-none-any.whl", "folder": "cu130", "sha256": "{SHA256}", "size": 3, "also": ["cu126"], '
    f'"requires_python": ">=3.10", "metadata_sha256": "{SHA256}", "uploaded": "2026-01-01T00:00:00Z", "yanked": "bad", '
    f'"candidate": 2, "job": "pure", "platform": "linux-cuda", "archs": ["9.0"], "commit": "{SHA256[:40]}"}}'
)
MANIFEST = (
    f'{{"generation": 3, "files": [{FILE}], "offers": [["1.0", "{SHA256}"]], "links": [["a", "b", []]], '
    '"place": "demo"}'
)
DIRECTORY = '{"generation": 2, "projects": ["demo"], "folders": ["cu130"], "filling": [], "root": "shared"}'
STAGED = '{"generation": 0, "keys": ["demo/demo-1.0-py3-none-any.whl"]}'
LISTING = (
    f'{{"project": "demo", "version": "1.0", "commit": "{SHA256[:40]}", "files": [{FILE}], '
    '"offers": [["linux", "cu130", "2.10", "3.12", "a", ""]]}'
)
PAGE = f"""\
<!DOCTYPE html>
<html><head><base href="../"><title>demo</title></head><body>
<!-- a comment -->
<a href="demo-1.0-py3-none-any.whl#sha256={SHA256}" data-requires-python="&gt;=3.10">demo-1.0-py3-none-any.whl</a><br>
<a href='https://localhost/demo%2B1.0.tar.gz' data-yanked="bad">demo</a> <a name=x>y</a>
</body></html>
"""
PAGE_JSON = f"""\
{{"meta": {{"api-version": "1.1"}}, "name": "demo", "projects": [{{"name": "demo"}}],
 "files": [{{"filename": "demo-1.0-py3-none-any.whl", "url": "a.whl", "hashes": {{"sha256": "{SHA256}"}}, "size": 3,
 "requires-python": ">=3.10", "yanked": false, "core-metadata": {{"sha256": "{SHA256}"}},
 "upload-time": "2026-01-01"}}]}}
"""
EXTENSION = """\
import os, sys, subprocess
from setuptools import Extension, find_packages, setup
macros = [("A", os.environ.get("A", "1"))]
if sys.platform == "win32" or os.path.exists("/usr/local/cuda"):
    macros += [("B", None)]
with open("README.md", "w") as file:
    file.write(subprocess.check_output([sys.executable, "-c", "print(1)"], text=True))
native = Extension("_demo", ["a.cpp"], define_macros=macros)
setup(name="demo", version="1.0", py_modules=["demo"], ext_modules=[native])
"""
TORCH = """\
import torch
from setuptools import setup
from torch.utils.cpp_extension import CUDA_HOME, BuildExtension, CppExtension, CUDAExtension
kind, sources = (CUDAExtension, ["a.cu"]) if torch.cuda.is_available() or CUDA_HOME else (CppExtension, ["a.cpp"])
setup(name="demo", version="1.0", ext_modules=[kind("_demo", sources, extra_compile_args={"cxx": ["-O3"], "nvcc": []})],
      cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)})
"""
SETUP = "import os\nfrom setuptools import setup\n__version__ = '1.0'\nsetup(name='demo', version=__version__)\n"
EDITION = '{"channel": "stable", "candidate": null, "date": null}'
PLAN = f'{{"schema": 1, "pins": {{"commit": null}}, "edition": {EDITION}, "jobs": []}}'
METADATA = """\
Metadata-Version: 2.4
Name: demo
Version: 1.0
Summary: a
Requires-Python: >=3.10
Requires-Dist: torch>=2.10; extra == "a"
Requires-Dist: b @ https://localhost/b.whl
Provides-Extra: a
License-Expression: MIT OR Apache-2.0
License-File: LICENSE
Classifier: Programming Language :: Python :: 3
Project-URL: Home, https://localhost
Description-Content-Type: text/x-rst

Title
=====

.. note:: a `link <https://localhost>`_ and ``code``

* a list

+---+---+
| a | b |
+---+---+
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ENTRY_POINTS = "[console_scripts]\ndemo = demo:main [extra]\n[a.b]\nc = demo.d:E.f\n"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA\n"
PYTHON = (
    "# coding: utf-8\nimport os\n\n\nclass A(list[int]):\n    def f(self, x=1):\n        return f'{x!r}' + (x := 2)\n"
)


def texts(*texts: str) -> Callable[[], tuple[bytes, ...]]:
    return lambda: tuple(text.encode() for text in texts)


@functools.cache
def libraries() -> tuple[bytes, ...]:
    device = wheels.unit(wheels.entry(wheels.SASS, 90), wheels.entry(wheels.PTX, 90))
    source = "int getpid(void); extern int aoti_torch_x(void); int ours(void) { return getpid() + aoti_torch_x(); }"
    return (
        wheels.linked(source),
        wheels.linked(source, "-g", "-Wl,-rpath,$ORIGIN/lib"),
        wheels.with_section(".nv_fatbin", device),
        wheels.with_section(".hip_fatbin", BUNDLE),
    )


BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__" + (1).to_bytes(8, "little") + b"".join(
    number.to_bytes(8, "little") for number in (4096, 8, 40)
) + b"hipv4-amdgcn-amd-amdhsa--gfx942".ljust(40, b"\0").ljust(4096 - 56, b"\0") + bytes(8)  # fmt: skip


@functools.cache
def plan_and_receipt() -> tuple[bytes, bytes]:
    """Return a plan.json, and a receipt of its wheel that says all that one can say."""
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(demo(Path(folder) / "a"))
        wheel = write(Path(folder), {wheels.PURE: b"a wheel"}) / wheels.PURE
        finding = Finding(wheel.name, "tags", Level.WARNING, "a message", "found", "expected")
        tried = Validated(plan.sites[0].name, "key", (Trial("import demo", Outcome.PASSED, "well"),))
        of_it = {"source": plan.pins.source_sha256, "findings": (finding,), "validated": (tried,)}
        receipts.save(wheel, replace(receipt(wheel, "pure"), **of_it))  # type: ignore[arg-type]
        return plan_file.dumps(plan).encode(), receipts.path_of(wheel).read_bytes()


def sdists() -> tuple[bytes, ...]:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in {"PKG-INFO": METADATA.encode(), "demo.py": b"", "a" * 120: b"x" * 2000}.items():
            info = tarfile.TarInfo(f"demo-1.0/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return (content.getvalue(),)


def fatbinaries() -> tuple[bytes, ...]:
    device = wheels.unit(wheels.entry(wheels.SASS, 90), wheels.entry(wheels.PTX, 90, 0x2000))
    return (device, BUNDLE, b"!<arch>\n" + b"a.o/".ljust(48) + b"40        `\n" + device[:40])


def windows() -> tuple[bytes, ...]:
    head = b"MZ".ljust(0x3C, b"\0") + b"\x40\0\0\0" + b"PE\0\0\x64\x86" + b"\2\0" + bytes(12) + bytes(4)
    section = b".nv_fatb" + b"".join(number.to_bytes(4, "little") for number in (200, 0, 200, 256)) + bytes(16)
    device = wheels.unit(wheels.entry(wheels.SASS, 90))
    return ((head + section + b".text\0\0\0" + section[8:]).ljust(256, b"\0") + device.ljust(256, b"\0"),)


@functools.cache
def archives() -> tuple[bytes, ...]:
    with tempfile.TemporaryDirectory() as folder:
        files = {**wheels.PACKAGE, "demo/data.bin": b"x" * 3000, "demo/inner.zip": nested()}
        return (wheels.make(Path(folder), files=files).read_bytes(), wheels.make(Path(folder)).read_bytes())


@functools.cache
def nested() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.so", wheels.linked("int ours;"))
        archive.writestr("c.zip", b"PK\x03\x04")
    return content.getvalue()
