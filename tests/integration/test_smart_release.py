"""A stranger's project, from `fatwheel init --smart-install` to `pip install`, as the page about PyPI says.

`init` writes the targets, a GitHub repository and PyPI; a user's .pypirc says that PyPI is a server of this machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from ci_tools.install import fatwheel_backend
from ci_tools.machine.storage import cache_folder
from tests.builders.installers import run_client
from tests.builders.sources import committed, git, write
from tests.builders.walkthroughs import commands, read_blocks
from tests.integration.conftest import own_python
from tests.servers.fatwheel_program import BUILDS
from tests.servers.github import TOKEN, GitHub, github_server
from tests.servers.prepared import Called, run_prepared
from tests.servers.uploads import PASSWORD, USER, Server, pypiserver

pytestmark = pytest.mark.slow

SDIST, WHEEL = "scaled-0.2.0.tar.gz", f"scaled-0.2.0-cp3{sys.version_info[1]}-cp3{sys.version_info[1]}-linux_x86_64.whl"
PAGE = Path(__file__).parents[2] / "docs/how-to/install-from-pypi.md"
SETUP = """\
import os
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CUDA = os.environ.get("CUDA_HOME")


class BuildWithNvcc(build_ext):
    def build_extension(self, ext):
        kernels = [source for source in ext.sources if source.endswith(".cu")]
        ext.sources = [source for source in ext.sources if source not in kernels]
        for kernel in kernels:
            os.makedirs(self.build_temp, exist_ok=True)
            target = os.path.join(self.build_temp, "kernel.o")
            arch = "-gencode=arch=compute_90,code=sm_90"
            subprocess.check_call([f"{CUDA}/bin/nvcc", arch, "-Xcompiler=-fPIC", "-c", kernel, "-o", target])
            ext.extra_objects.append(target)
            ext.library_dirs += [f"{CUDA}/lib64", f"{CUDA}/lib"]
            ext.libraries += ["cudart_static", "stdc++", "rt", "pthread", "dl"]
        super().build_extension(ext)


setup(
    name="scaled",
    version="0.2.0",
    packages=["scaled"],
    python_requires=">=3.10",
    ext_modules=[Extension("scaled._C", ["csrc/binding.c"] + ["csrc/scale.cu"] * bool(CUDA))],
    cmdclass={"build_ext": BuildWithNvcc},
)
"""
FILES = {
    "setup.py": SETUP,
    "pyproject.toml": '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n',
    "scaled/__init__.py": "from scaled._C import built_for\n",
    "csrc/binding.c": """\
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#pragma weak scale
const char* scale(void);
static PyObject* built_for(PyObject* self, PyObject* none) { return PyUnicode_FromString(scale ? scale() : "no GPU"); }
static PyMethodDef methods[] = {{"built_for", built_for, METH_NOARGS, ""}, {0}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_C", 0, -1, methods};
PyMODINIT_FUNC PyInit__C(void) { return PyModule_Create(&module); }
""",
    "csrc/scale.cu": """\
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
extern "C" const char* scale() { if (false) twice<<<1, 1>>>(nullptr); return "CUDA"; }
""",
}
# What a person changes of the starter: who is served, here what one machine of this kind can build.
PLAIN = "platforms:\n  linux-cpu: {wheel-platform: linux}\n"
CUDA = '{cuda: ["13.0"], archs: ["9.0"], wheel-platform: manylinux_2_36}'
HERE = {"linux-cpu": PLAIN, "linux-cuda": f"{PLAIN}  linux-cuda: {CUDA}\n"}


class Place(NamedTuple):
    """A stranger's checkout, the servers that it is released to, and the variables of its owner."""

    root: Path
    hub: GitHub
    index: Server
    environ: dict[str, str]

    def type(self, *words: str) -> Called:
        return run_prepared(words, cwd=self.root, env=self.environ)

    def install(self, folder: Path, *options: str) -> str:
        """Return what the installed package says after `pip install scaled` on a machine of its own cache."""
        words = ["install", "-v", "--no-cache-dir", "--index-url", self.index.simple, "--target", folder, *options]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        environ = {**kept, "PIP_CONFIG_FILE": os.devnull, "XDG_CACHE_HOME": f"{folder}-cache", "CUDA_HOME": ""}
        done = run_client("pip", [*map(str, words), "scaled"], environ)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module", params=["linux-cpu", pytest.param("linux-cuda", marks=pytest.mark.long)])
def released(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Start a config with `init --smart-install`, say who is served, commit, tag, and release to what `init` wrote."""
    home = tmp_path_factory.mktemp("stranger")
    root = write(home / "scaled", FILES)
    git(root, "init", "--quiet")
    git(root, "remote", "add", "origin", "https://github.com/octo/demo.git")
    with github_server() as hub, pypiserver(home / "pypi") as index:
        section = f"[pypi]\nrepository = {index.upload}\nusername = {USER}\npassword = {PASSWORD}\n"
        write(home, {".pypirc": f"[distutils]\nindex-servers = pypi\n{section}"})
        addresses = {"GITHUB_API_URL": hub.url, "GITHUB_SERVER_URL": hub.url, "GH_TOKEN": TOKEN}
        caches = {"HOME": str(home), "XDG_CACHE_HOME": str(cache_folder(os.environ).parent)}
        builds = {BUILDS: str(home)} if request.param == "linux-cpu" else {}  # a toolkit's copies stay beside its cache
        place = Place(root, hub, index, {**os.environ, **addresses, **caches, **builds})
        started = place.type("init", "--smart-install")
        assert started.returncode == 0, started.stderr
        text = (root / "fatwheel.yml").read_text(encoding="utf-8")
        text = re.sub(r"(?m)^python: .*$", f"python: [{own_python()}]", text)
        text = re.sub(r"(?m)^platforms:\n(?:  .*\n)+", HERE[request.param], text)
        (root / "fatwheel.yml").write_text(text)
        hub.commits.add(committed(root))
        git(root, "tag", "v0.2.0")
        ran = place.type("release")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        yield place


def test_what_init_writes_is_released_and_pip_takes_the_wheel_that_fits(released: Place, tmp_path: Path) -> None:
    is_cuda = "linux-cuda" in (released.root / "fatwheel.yml").read_text()
    assert [path.name for path in (released.root.parent / "pypi").iterdir()] == ["scaled-0.2.0.tar.gz"]
    for version, built_for in (("13.2", "CUDA" if is_cuda else "no GPU"), ("12.8", "no GPU")):
        said = released.install(tmp_path / version, f"-Cfor-cuda={version}")
        assert "which wheel fits here?" in said
        assert "Building wheel for scaled" in said
        assert "compiled" not in said
        shown = "import scaled; print(scaled.built_for())"
        assert built_for == run_python(shown, tmp_path / version)
    with tarfile.open(released.root / "dist/.smart/scaled-0.2.0.tar.gz") as archive:
        lock = archive.extractfile("scaled-0.2.0/wheels.lock")
        assert lock
        urls = [url for wheel in json.load(lock)["wheels"] for url in wheel["urls"]]
    assert all(url.startswith(f"{released.hub.url}/octo/demo/releases/download/v0.2.0/scaled-0.2.0") for url in urls)


def run_python(code: str, folder: Path) -> str:
    """Return what a program prints that finds the packages in a folder."""
    environ = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_page_s_commands_fetch_the_wheel_for_another_machine_and_write_the_guard(
    released: Place, tmp_path: Path
) -> None:
    shutil.copy(released.root.parent / "pypi" / SDIST, tmp_path)
    (tmp_path / "src/demo").mkdir(parents=True)
    for command in (typed for block in read_blocks(PAGE) for typed, _ in commands(block.text)):
        words, _, output = command.replace("ao_kernels-0.1.0.tar.gz", SDIST).partition(" > ")
        if words.startswith("fatwheel"):
            done = run_prepared(words.split()[1:], cwd=tmp_path, env=released.environ)
            assert done.returncode == 0, done.stderr
            (tmp_path / (output or "nothing")).write_text(done.stdout)
    assert [path.name for path in (tmp_path / "wheels").glob("*.whl")] == [WHEEL]
    compile((tmp_path / "src/demo/_guard.py").read_text(), "_guard.py", "exec")


def test_the_page_shows_what_init_writes_and_every_setting_of_the_backend(released: Place) -> None:
    text = PAGE.read_text(encoding="utf-8")
    written = yaml.safe_load((released.root / "fatwheel.yml").read_text())["publish"]
    fragments = map(yaml.safe_load, re.findall(r"^```yaml fragment\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert {"publish": {**written, "targets": ["github:my-org/my-project", "pypi"]}} in fragments
    settings = re.findall(r"^\| `AO_KERNELS_(\w+)=", text, re.MULTILINE)
    assert sorted(name.lower().replace("_", "-") for name in settings) == sorted(fatwheel_backend.SETTINGS)
