"""A job of windows-cuda, planned and built by its whole workshop on a machine that is given the facts of a Windows one.

Its compilers are programs that note their command lines; what they would make is not there, so that the build ends in
another wheel than planned. Everything before that is what a Windows machine would do, its paths apart.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools.build.builder import Workshop
from ci_tools.build.sdk.cuda_windows import WINDOWS
from ci_tools.build.toolchain import Toolchains
from ci_tools.errors import Rejected
from ci_tools.plan import matrix
from ci_tools.plan.make import Planned, make_plan
from tests.builders.sources import demo, world_with_uv
from tests.builders.visual_studio import HOST_CONFIG, VisualStudio, program

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="a machine that is not Windows")]
CONFIG = f"""\
package: demo
python: ["3.{sys.version_info.minor}"]
platforms:
  windows-cuda:
    owner: "@demo/windows"
    native: ["*.cu"]
    cuda: ["13.0"]
    archs: ["9.0", "12.0+PTX"]
build:
  before: ["python tools/note.py"]
"""
NOTE = """\
import json, os, shutil
words = {**os.environ, "nvcc": shutil.which("nvcc.exe"), "other": shutil.which("hipcc.exe")}
open(os.environ["NOTES"], "w").write(json.dumps(words))
"""
FILES = {
    "fatwheel.yml": CONFIG,
    "k.cu": "__global__ void k() {}\n",
    "tools/note.py": NOTE,
    "setup.py": "from setuptools import setup\nsetup(name='demo', version='1.0', py_modules=['demo'])\n",
    "pyproject.toml": '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    '[project]\nname = "demo"\nversion = "1.0"\nrequires-python = ">=3.10"\n',
}


# What a project's own commands see; each None is a variable that would change what is compiled.
EXPECTED = {
    "CUDA_HOME": "{scratch}/cuda_home",
    "TORCH_CUDA_ARCH_LIST": "9.0;12.0+PTX",
    "DISTUTILS_USE_SDK": "1",
    "MSSdk": "1",
    "VSCMD_ARG_TGT_ARCH": "x64",
    "INCLUDE": r"C:\VC\include;C:\Kits\include",
    "LIB": r"C:\VC\lib\x64;C:\Kits\lib\x64",
    "NVCC_CCBIN": "{programs}",
    "CUDAHOSTCXX": "{programs}/cl.exe",
    "CMAKE_GENERATOR": "Ninja",
    "PROCESSOR_ARCHITECTURE": "AMD64",
    "LIBRARY_PATH": None,
    "PROMPT": None,
    "CUDA_PATH": None,
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Planned:
    folder = tmp_path_factory.mktemp("windows")
    return make_plan(demo(folder / "demo", FILES) / "fatwheel.yml", world_with_uv(folder))


def test_the_plan_has_a_job_for_a_runner_of_windows(planned: Planned) -> None:
    (job,) = planned.plan.jobs
    assert job.wheel == "demo-1.0+cu130-py3-none-win_amd64.whl"
    rows = json.loads(matrix.outputs(planned.plan)["builds"])["include"]
    row = next(row for row in rows if "windows-cuda" in row["jobs"])
    assert (row["runner"], row["container"], row["required"]) == ("windows-2025", "", False)


def test_a_build_sees_the_compilers_of_its_job_and_no_others(planned: Planned, tmp_path: Path) -> None:
    studio = VisualStudio(tmp_path / "studio")
    home = studio.install("Visual Studio Build Tools 2022", "14.44.35207")
    others = tmp_path / "others"
    for name in ("nvcc.exe", "hipcc.exe", "git.exe"):
        program(others / name, "exit 1")
    toolkit = tmp_path / "cuda"
    program(toolkit / "bin/nvcc.exe", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
    (toolkit / "include/crt").mkdir(parents=True)
    (toolkit / "include/crt/host_config.h").write_text(HOST_CONFIG.format(1920, 1950))
    (toolkit / "lib/x64").mkdir(parents=True)
    outside = world_with_uv(tmp_path)
    path = f"{others}:{outside.environ['PATH']}"
    environ = {**outside.environ, **studio.environ(path), "CUDA_PATH": str(toolkit), "PROCESSOR_ARCHITECTURE": "AMD64"}
    outside = replace(outside, host=WINDOWS, environ=environ)
    (job,) = planned.plan.jobs
    job = replace(job, env=(("NOTES", str(tmp_path / "notes.json")),))
    tools = Toolchains(planned.catalog, outside).prepare(job)
    with pytest.raises(Rejected, match=r"compiled nothing: it made demo-1\.0-py3-none-any\.whl, expected demo"):
        Workshop(logs=tmp_path / "logs", outside=outside).build_wheel(
            job, planned.plan, planned.tree, tools, tmp_path / "dist"
        )
    told = json.loads((tmp_path / "notes.json").read_text())
    scratch = told["CUDA_HOME"].removesuffix("/cuda_home")
    assert scratch == "/tmp/fatwheel-build-demo"  # noqa: S108 - a name
    programs = f"{home}/VC/Tools/MSVC/14.44.35207/bin/Hostx64/x64"
    assert {name: told.get(name) for name in EXPECTED} == {
        name: value.format(scratch=scratch, programs=programs) if value else None for name, value in EXPECTED.items()
    }
    assert (told["nvcc"], told["other"]) == (f"{scratch}/cuda_home/bin/nvcc.exe", None)
