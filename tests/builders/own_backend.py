"""A project whose build backend lies in its own source and compiles one file if there is one: it requires nothing.

What an environment with setuptools costs, two seconds of processor time in each build, is of no use to a test that is
about what the compiler says, or about what comes before and after a build.
"""

from __future__ import annotations

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "1.0"
requires-python = ">=3.10"
"""
BACKEND = '''\
"""The backend of this project."""

import base64
import glob
import hashlib
import io
import os
import shlex
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

METADATA = b"Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\nRequires-Python: >=3.10\\n"
COMPILED = "fast.cpp"


def build_sdist(folder, settings=None):
    with tarfile.open(os.path.join(folder, "tiny-1.0.tar.gz"), "w:gz") as sdist:
        for name in sorted(("backend.py", "pyproject.toml", *glob.glob("*.cpp"), *glob.glob("tiny/*.py"))):
            sdist.add(name, f"tiny-1.0/{name}")
        info = tarfile.TarInfo("tiny-1.0/PKG-INFO")
        info.size = len(METADATA)
        sdist.addfile(info, io.BytesIO(METADATA))
    return "tiny-1.0.tar.gz"


def build_wheel(folder, settings=None, metadata=None):
    files = {name: read(name) for name in sorted(glob.glob("tiny/*.py"))}
    tag = "py3-none-any"
    if os.path.exists(COMPILED):
        library = "fast" + sysconfig.get_config_var("EXT_SUFFIX")
        options = ["-shared", "-fPIC", "-I" + sysconfig.get_paths()["include"]]
        subprocess.run([*shlex.split(os.environ.get("CXX", "c++")), *options, COMPILED, "-o", library], check=True)
        files[f"tiny/{library}"] = read(library)
        python = "cp{}{}".format(*sys.version_info)
        tag = "-".join((python, python, sysconfig.get_platform().replace("-", "_").replace(".", "_")))
    pure = str(not os.path.exists(COMPILED)).lower()
    wheel = f"Wheel-Version: 1.0\\nGenerator: backend\\nRoot-Is-Purelib: {pure}\\nTag: {tag}\\n"
    files |= {"tiny-1.0.dist-info/METADATA": METADATA, "tiny-1.0.dist-info/WHEEL": wheel.encode()}
    record = "".join(map(recorded, files, files.values())) + "tiny-1.0.dist-info/RECORD,,\\n"
    with zipfile.ZipFile(os.path.join(folder, f"tiny-1.0-{tag}.whl"), "w") as archive:
        for name, content in {**files, "tiny-1.0.dist-info/RECORD": record.encode()}.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return f"tiny-1.0-{tag}.whl"


def read(name):
    with open(name, "rb") as file:
        return file.read()


def recorded(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\\n"
'''
CODE = """\
#include <Python.h>
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit_fast() { return PyModule_Create(&module); }
"""
FILES = {"pyproject.toml": PYPROJECT, "backend.py": BACKEND, "fast.cpp": CODE}
