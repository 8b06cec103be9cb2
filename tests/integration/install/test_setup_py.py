"""The setup.py of a smart sdist, run as old tools and people run it: it takes the wheel that fits."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ci_tools.formats.tar import tarfile
from tests.builders.installers import fetched, old_python
from tests.builders.smart_sdists import environ_of, release
from tests.servers.assets import assets
from tests.servers.uploads import UV

pytestmark = pytest.mark.slow

SETUP = """\
import os
from setuptools import setup
switch = os.environ.get("DEMO_SWITCH", "")  # before anything is built, as many do
with open("demo.py", "a") as file:
    file.write(f"switch = {switch!r}\\n")
setup(name="demo", version="1.0", py_modules=["demo"])
"""


OLD = "setuptools==65.5.0 wheel==0.38.4"  # whose bdist_wheel is that of the package wheel


def make_wheel(setup: str, tmp_path: Path, *options: str, **variables: str) -> str:
    """Run the setup.py of an unpacked smart sdist as people do, and return the module in the wheel that it makes."""
    done, unpacked = run_setup(setup, tmp_path, "bdist_wheel", "--dist-dir", "out", *options, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (unpacked / "out").iterdir()
    assert wheel.name == "demo-1.0-py3-none-any.whl"
    return read_module(wheel)


def run_setup(
    setup: str, tmp_path: Path, *words: str, **variables: str
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Run the setup.py of a smart sdist, with the packages of PYTHONPATH only where that is given."""
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, files={"setup.py": setup}, cuda="13.0", env={"DEMO_SWITCH": "on"})
        with tarfile.open(made.sdist) as archive:
            archive.extractall(tmp_path / "unpacked", filter="data")
        unpacked = tmp_path / "unpacked/demo-1.0"
        done = subprocess.run(
            [sys.executable, *["-S"] * ("PYTHONPATH" in variables), "setup.py", *words], cwd=unpacked,
            env=environ_of(tmp_path, {"PIP_NO_INDEX": "1", **variables}), capture_output=True, text=True, check=False,
        )  # fmt: skip
    return done, unpacked


def read_module(wheel: Path) -> str:
    """Return the text of the module in a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        return opened.read("demo.py").decode()


def test_a_setup_py_that_is_to_compile_does_so_with_the_variables_of_the_wheel(tmp_path: Path) -> None:
    made = make_wheel(SETUP, tmp_path, DEMO_FOR_TORCH="2.10.0+cu130", DEMO_NO_PREBUILT="1")
    assert made == "kind = 'compiled'\nswitch = 'on'\n"


OF_DISTUTILS = """\
import setuptools
from distutils.core import setup
setup(name="demo", version="1.0", py_modules=["demo"])
"""
REQUIRING = SETUP.replace('version="1.0"', 'version="1.0", setup_requires=["is-not-in-any-index"]')


@pytest.mark.parametrize("script", [OF_DISTUTILS, REQUIRING], ids=["distutils", "setup-requires"])
def test_a_setup_py_that_calls_distutils_or_wants_more_takes_the_wheel(script: str, tmp_path: Path) -> None:
    assert make_wheel(script, tmp_path, DEMO_FOR_CUDA="13.0") == "kind = 'prebuilt'\n"


@pytest.fixture(scope="module")
def old_setuptools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.mktemp("setuptools")
    subprocess.run([UV, "pip", "install", "--quiet", "--target", own, *OLD.split()], check=True)
    return own


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="such a setuptools does not load: pkgutil.ImpImporter is gone")
def test_an_old_setuptools_without_the_package_wheel_takes_the_wheel(old_setuptools: Path, tmp_path: Path) -> None:
    alone = shutil.copytree(old_setuptools, tmp_path / "alone", ignore=shutil.ignore_patterns("wheel*"))
    variables = {"PYTHONPATH": str(alone), "DEMO_FOR_CUDA": "13.0"}
    assert make_wheel(SETUP, tmp_path, "--universal", "--py-limited-api", "cp310", **variables) == "kind = 'prebuilt'\n"


def test_commands_of_setup_py_that_install_without_a_wheel_say_that_they_compile(tmp_path: Path) -> None:
    done, _ = run_setup(SETUP, tmp_path, "install", "--root", "there", DEMO_FOR_CUDA="13.0")
    assert "demo: `setup.py install` compiles it; `pip install .` takes a wheel that fits" in done.stderr
    assert "demo: built with DEMO_SWITCH=on" in done.stderr
    assert "switch = 'on'" in next((tmp_path / "unpacked/demo-1.0/there").rglob("demo.py")).read_text()


@pytest.mark.parametrize("client", ["pip-9.0.3", pytest.param("pip-18.1", marks=pytest.mark.long)])
def test_a_pip_from_before_build_backends_takes_the_wheel(client: str, old_setuptools: Path, tmp_path: Path) -> None:
    isolation = [] if client == "pip-9.0.3" else ["--no-build-isolation"]  # the former knows of none
    with assets(tmp_path / "assets") as server:
        made = release(tmp_path, server.url, files={"setup.py": SETUP}, cuda="13.0")
        path = os.pathsep.join(map(str, (fetched(client), old_setuptools)))
        done = subprocess.run(
            [old_python(), "-m", "pip", "wheel", "--no-cache-dir", "--no-deps", *isolation, "--wheel-dir",
             tmp_path / "out", made.sdist],
            env=environ_of(tmp_path, {"DEMO_FOR_CUDA": "13.0", "PYTHONPATH": path}),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert read_module(tmp_path / "out/demo-1.0-py3-none-any.whl") == "kind = 'prebuilt'\n"
