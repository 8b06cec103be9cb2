"""The setup.py of a smart sdist, run as old tools and people run it: it takes the wheel that fits."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from tests.builders.installers import fetched, old_python
from tests.builders.smart_sdists import environ_of, release
from tests.servers.assets import assets
from tests.servers.uploads import UV

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

SETUP = """\
import os
from setuptools import setup
switch = os.environ.get("DEMO_SWITCH", "")  # before anything is built, as many do
with open("demo.py", "a") as file:
    file.write(f"switch = {switch!r}\\n")
setup(name="demo", version="1.0", py_modules=["demo"])
"""


OLD, NEW = "setuptools==65.5.0 wheel==0.38.4", "setuptools"


@pytest.fixture(scope="module")
def setuptools_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Install what is asked for into a folder of its own, once."""

    @functools.cache
    def install(asked: str) -> Path:
        own = tmp_path_factory.mktemp("setuptools")
        subprocess.run([UV, "pip", "install", "--quiet", "--target", own, *asked.split()], check=True)
        return own

    return install


@pytest.mark.parametrize("setuptools", [OLD, NEW])
@pytest.mark.parametrize(
    ("prebuilt", "kind"), [("", "kind = 'prebuilt'\n"), ("1", "kind = 'compiled'\nswitch = 'on'\n")], ids=["on", "off"]
)
def test_setup_py_serves_bdist_wheel(
    setuptools: str, prebuilt: str, kind: str, setuptools_of: Callable[[str], Path], tmp_path: Path
) -> None:
    own = setuptools_of(setuptools)
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, files={"setup.py": SETUP}, cuda="13.0", env={"DEMO_SWITCH": "on"})
        with tarfile.open(made.sdist) as archive:
            archive.extractall(tmp_path / "unpacked", filter="data")
        variables = {"DEMO_FOR_TORCH": "2.10.0+cu130", "DEMO_NO_PREBUILT": prebuilt, "PYTHONPATH": str(own)}
        unpacked = tmp_path / "unpacked/demo-1.0"
        done = subprocess.run(
            [sys.executable, "setup.py", "bdist_wheel", "--dist-dir", "out"],
            cwd=unpacked, env=environ_of(tmp_path, variables), capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (unpacked / "out").iterdir()
    assert wheel.name == "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as opened:
        assert opened.read("demo.py").decode() == kind


OF_DISTUTILS = """\
import setuptools
from distutils.core import setup
setup(name="demo", version="1.0", py_modules=["demo"])
"""
REQUIRING = SETUP.replace('version="1.0"', 'version="1.0", setup_requires=["is-not-in-any-index"]')


@pytest.mark.parametrize("script", [OF_DISTUTILS, REQUIRING], ids=["distutils", "setup-requires"])
def test_a_setup_py_that_calls_distutils_or_wants_more_takes_the_wheel(script: str, tmp_path: Path) -> None:
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, files={"setup.py": script}, cuda="13.0")
        with tarfile.open(made.sdist) as archive:
            archive.extractall(tmp_path / "unpacked", filter="data")
        unpacked = tmp_path / "unpacked/demo-1.0"
        done = subprocess.run(
            [sys.executable, "setup.py", "bdist_wheel", "--dist-dir", "out"], cwd=unpacked, capture_output=True,
            env=environ_of(tmp_path, {"DEMO_FOR_CUDA": "13.0", "PIP_NO_INDEX": "1"}), text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(unpacked / "out/demo-1.0-py3-none-any.whl") as opened:
        assert opened.read("demo.py").decode() == "kind = 'prebuilt'\n"


@pytest.mark.parametrize("client", ["pip-9.0.3", pytest.param("pip-18.1", marks=pytest.mark.long)])
def test_a_pip_from_before_build_backends_takes_the_wheel(
    client: str, setuptools_of: Callable[[str], Path], tmp_path: Path
) -> None:
    own = setuptools_of(OLD)
    isolation = [] if client == "pip-9.0.3" else ["--no-build-isolation"]  # the former knows of none
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, files={"setup.py": SETUP}, cuda="13.0")
        path = os.pathsep.join(map(str, (fetched(client), own)))
        done = subprocess.run(
            [old_python(), "-m", "pip", "wheel", "--no-cache-dir", "--no-deps", *isolation, "--wheel-dir",
             tmp_path / "out", made.sdist],
            env=environ_of(tmp_path, {"DEMO_FOR_CUDA": "13.0", "PYTHONPATH": path}),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(tmp_path / "out/demo-1.0-py3-none-any.whl") as opened:
        assert opened.read("demo.py").decode() == "kind = 'prebuilt'\n"
