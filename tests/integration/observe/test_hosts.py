"""The same evidence on every host: with another Python, and for another user."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.machine import python as interpreter
from ci_tools.model.versions import Python
from ci_tools.observe.setup_py import run
from ci_tools.observe.setup_py.prepared import Plugins, Prepared, prepare
from tests.builders.equipped import equip, install
from tests.builders.sources import evidence_of, write

pytestmark = pytest.mark.slow  # installs the toolkit for other Pythons

ROOT = Path(__file__).parents[3]
NOBODY = 65534
HERE = Path(sys.executable)
SYSTEMS_PYTHON = Path("/usr/bin/python3")  # which everybody may run
CONFIG = """\
package: demo
version: "1.0"
python: ["3.10", "3.14t"]
torch: ["2.10"]
platforms:
  linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0"]}
  windows: {owner: "@demo/windows"}
"""
SETUP = """\
import ast, configparser, datetime, itertools, os, pathlib, sys, sysconfig, typing
from setuptools import Extension, setup
from torch.utils.cpp_extension import BuildExtension, CUDA_HOME, CUDAExtension
try:
    import tomllib
    flags = tomllib.loads("flags = ['-DTOML']")["flags"]
except ImportError:
    flags = []
there = [hasattr(itertools, "batched"), hasattr(typing, "Self"), hasattr(datetime, "UTC"), hasattr(os, "fork"),
         hasattr(pathlib.Path, "walk"), hasattr(configparser, "SafeConfigParser"), hasattr(os, "add_dll_directory"),
         hasattr(ast, "Str"), "batched" in dir(itertools), os.sep == chr(92)]
flags.append("-DTHERE=" + "".join(str(int(one)) for one in there))
folders = [sysconfig.get_path("include"), os.path.join(sys.prefix, "include")]
extensions = [Extension("demo.a", ["a.c"], include_dirs=folders, extra_compile_args=flags)]
if CUDA_HOME:
    extensions.append(CUDAExtension("demo.b", ["b.cu"]))
setup(name="demo", version="1.0", packages=["demo"], ext_modules=extensions, cmdclass={"build_ext": BuildExtension})
"""


def project(folder: Path) -> Path:
    """Write a project that asks for much that differs between hosts, which everybody may read."""
    files = {"fatwheel.yml": CONFIG, "setup.py": SETUP, "demo/__init__.py": "", "a.c": "", "b.cu": ""}
    return write(folder / "a", files)


def evidence_by(python: Path, folder: Path, home: Path, user: int | None = None) -> str:
    """Return what `fatwheel evidence` prints with a Python, and for another user with the toolkit that it has."""
    command = [python, "-m", "ci_tools", "evidence"]
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    if user is None:
        environ["PYTHONPATH"] = str(ROOT)
    ended = subprocess.run(command, cwd=folder, env=environ, user=user, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


ASKS_ITS_PROCESS = """\
import argparse, gc, os, random, signal, subprocess, sys, threading
own = [sorted(sys.argv), len(sys.path), threading.active_count(), gc.isenabled(), os.getcwd()[-2:], random.__name__,
       sys.stdin.read(), signal.getsignal(signal.SIGPIPE), sys.flags.safe_path
       if hasattr(sys.flags, "safe_path") else "", hasattr(sys.modules["__main__"], "word"),
       subprocess.check_output([sys.executable, "-c", "import os; print(sorted(os.environ))"], text=True)]
""" + SETUP.replace("flags.append(", "flags += [f'-DOWN={one}' for one in own]\nflags.append(")


def test_a_forked_process_shows_what_a_started_one_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def fork_none(plugins: Plugins) -> Iterator[Prepared]:
        with prepare(plugins) as prepared:
            yield replace(prepared, server=None)

    projects = [project(tmp_path / name) for name in ("one", "two")]
    for folder in projects:
        (folder / "setup.py").write_text(ASKS_ITS_PROCESS)
        (folder / "fatwheel.yml").write_text(CONFIG.replace('"3.10", ', ""))  # a started process takes long
    forked = evidence_of(projects[0])
    monkeypatch.setattr(run, "prepare", fork_none)
    assert evidence_of(projects[1]) == forked
    assert all(word in str(forked) for word in ("THERE=", "OWN="))


@pytest.mark.parametrize("version", ["3.13", *(pytest.param(one, marks=pytest.mark.long) for one in ("3.10", "3.12"))])
def test_another_python_sees_the_same(version: str, tmp_path: Path) -> None:
    program = interpreter.find(Python.parse(version), os.environ)
    if program is None:
        pytest.skip(f"no Python {version} is here")
    here = evidence_by(HERE, project(tmp_path), tmp_path / "here")
    assert "THERE=" in here
    assert evidence_by(equip(program), tmp_path / "a", tmp_path / "there") == here


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0 or not SYSTEMS_PYTHON.exists(), reason="only root can be another user")
def test_another_user_sees_the_same() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, home = project(Path(name)), Path(name, "home")
        Path(name).chmod(0o755)
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        host = install(SYSTEMS_PYTHON, Path(name, "host"), ROOT)
        root = evidence_by(host, folder, Path(name, "root"), os.geteuid())
        assert evidence_by(host, folder, home, NOBODY) == root
