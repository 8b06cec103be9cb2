"""The jobs of a batch share what is compiled for them: what reads Python.h is compiled for each, all else once."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from ci_tools.build.sdk.compiler_cache import cache_for
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.machine import python as interpreter
from ci_tools.model.platforms import Accelerator
from ci_tools.model.versions import Minor, Python
from tests.builders.compilers import CCACHE
from tests.builders.sources import world, write

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.model.plan import Job
    from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CCACHE.exists(), reason="needs ccache beside this Python")]

CONFIG = """\
package: demo
version: "1.0"
python: [{pythons}]
platforms:
  linux-cpu: {{owner: "@demo/cpu", wheel-platform: linux, container: example/builder, env: {{{env}}}}}
build: {{requires: ["setuptools>=61"]}}
"""
SETUP = """\
from setuptools import Extension, setup
extension = Extension("demo", ["binding.cpp", "kernel.cpp"], extra_compile_args=["-g", "-O1"])
setup(name="demo", version="1.0", ext_modules=[extension])
"""
KERNEL = "#include <cstdio>\nint answer() { std::puts(__FILE__); return 42; }\n"
BINDING = """\
#include <Python.h>
int answer();
static PyModuleDef demo = {PyModuleDef_HEAD_INIT, "demo"};
PyMODINIT_FUNC PyInit_demo() { return answer() ? PyModule_Create(&demo) : nullptr; }
"""


def _find_two_pythons() -> tuple[str, str]:
    """Return two Pythons of this machine that compile extensions with the same flags."""
    code = "import sysconfig; print(sysconfig.get_config_vars('CFLAGS', 'CC', 'CCSHARED'))"
    found = [(name, interpreter.find(Python.parse(name), os.environ)) for name in ("3.10", "3.11", "3.12", "3.13")]
    flags = {name: subprocess.check_output([path, "-c", code]) for name, path in found if path}
    same = next((pair for pair in pairwise(flags) if flags[pair[0]] == flags[pair[1]]), None)
    return same or pytest.skip("needs two Pythons that compile with the same flags")


def libraries(folder: Path) -> dict[str, bytes]:
    """Return the compiled library of each wheel in a folder."""
    found = {}
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            found[wheel.name] = next(archive.read(name) for name in archive.namelist() if name.endswith(".so"))
    return found


def test_the_second_python_takes_what_it_can_from_the_first_and_its_bytes_are_the_same(
    fatwheel: CommandLine, tmp_path: Path
) -> None:
    pythons = _find_two_pythons()
    write(tmp_path, {"setup.py": SETUP, "kernel.cpp": KERNEL, "binding.cpp": BINDING})
    jobs = ",".join(f"linux-cpu-cp{python.replace('.', '')}" for python in pythons)
    heard = {}
    for out, env in {"with": "", "without": "CCACHE_DISABLE: '1'"}.items():
        config = CONFIG.format(pythons=", ".join(f'"{python}"' for python in pythons), env=env)
        write(tmp_path, {"fatwheel.yml": config})
        ran = fatwheel("build", "--job", jobs, "--out", out, cwd=tmp_path, FATWHEEL_CACHE=str(tmp_path / "cache"))
        assert ran.status == 0, ran.stderr
        logs = [path.read_text() for path in (tmp_path / out / "logs").glob("*.log")]
        assert [log.count("-o build/temp/") for log in logs] == [2, 2]  # torch compiles in there, and -g names it
        heard[out] = [line.split(": ")[1] for line in ran.stderr.splitlines() if "compiler cache" in line]
    assert heard == {"with": [f"{hits} of 2 objects are from the compiler cache" for hits in (0, 1)], "without": []}
    assert libraries(tmp_path / "with") == libraries(tmp_path / "without")


TRAP = """\
__global__ void store(int* out) {
#if __CUDA_ARCH__ >= 1000
  *out = %d;
#else
  *out = 1;
#endif
}
"""


def test_nvccs_object_of_a_changed_architecture_is_not_the_cached_one(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc") or pytest.skip("needs nvcc")
    cuda = Accelerator(CUDA, Minor(13, 0))
    job = cast("Job", SimpleNamespace(batch="linux-cuda-cu130", accelerator=cuda))
    cache = cache_for(job, tmp_path, world(tmp_path))
    launcher, environ = cache.variables["CMAKE_CUDA_COMPILER_LAUNCHER"], {**os.environ, **cache.variables}
    archs = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in (90, 100)]
    made = {}
    for number in (2, 3, 2):
        write(tmp_path, {"trap.cu": TRAP % number})
        command = [launcher, nvcc, *archs, "-MD", "-MF", "trap.d", "-c", "trap.cu", "-o", "trap.o"]
        subprocess.run(command, check=True, cwd=tmp_path, env=environ, capture_output=True)
        made.setdefault(number, []).append((tmp_path / "trap.o").read_bytes())
    assert made[2][0] != made[3][0]
    assert made[2][0] == made[2][1]
    assert cache.summarize() == "1 of 3 objects are from the compiler cache"
