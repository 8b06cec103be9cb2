"""A kernel for AMD GPUs, built by a real hipcc, read back out of its wheel, and refused where a target is missing."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ci_tools.catalog import load
from ci_tools.catalog.accelerators.rocm import ROCM, gfx_facts
from ci_tools.formats.binaries.fatbinary import units
from ci_tools.model.versions import GfxArch, Minor
from tests.builders.sources import write
from tests.builders.wheels import make
from tests.integration.conftest import CommandLine, Ran, own_python

HIPCC = shutil.which("hipcc")
SAID = subprocess.run([HIPCC, "--version"], capture_output=True, text=True, check=False).stdout if HIPCC else ""
VERSION = re.search(r"HIP version: (\d+)\.(\d+)", SAID)

KNOWN = load().stacks[ROCM].get(Minor(int(VERSION[1]), int(VERSION[2]))) if VERSION else None
WHY = (
    f"the catalog has no ROCm {VERSION[1]}.{VERSION[2]}" if VERSION else "there is no hipcc (Debian's package `hipcc`)"
)

pytestmark = [pytest.mark.long, pytest.mark.skipif(KNOWN is None, reason=WHY)]

CONFIG = """\
package: small
python: [{python}]
platforms:
  linux-rocm:
    owner: "@demo/rocm"
    native: ["**/*.hip"]
    rocm: ["{rocm}"]
    archs: [{archs}]
    wheel-platform: linux
validate:
  imports: [small]
"""
PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "small"
version = "1.0"
requires-python = ">=3.10"
"""
SETUP = """\
import os

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HOME = os.environ.get("ROCM_HOME")
ARCHS = os.environ.get("PYTORCH_ROCM_ARCH", "").split(";")


class ByHipcc(build_ext):
    def build_extensions(self):
        self.compiler.src_extensions.append(".hip")
        hipcc = [os.path.join(HOME, "bin", "hipcc"), "-fPIC"]
        self.compiler.set_executables(compiler_so=hipcc, compiler_so_cxx=hipcc)
        super().build_extensions()


kernel = Extension(
    "small.kernel",
    ["small/kernel.hip"],
    extra_compile_args=["-O2", *(f"--offload-arch={arch}" for arch in ARCHS)],
    libraries=["amdhip64"],
    py_limited_api=True,
)
setup(
    packages=["small"],
    ext_modules=[kernel] if HOME else [],
    cmdclass={"build_ext": ByHipcc},
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if HOME else {},
)
"""
KERNEL = """\
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
#include <hip/hip_runtime.h>

__global__ void scale(float *values, float by, int count) {
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) values[index] *= by;
}

static PyObject *devices(PyObject *, PyObject *) {
  int count = 0;
  if (hipGetDeviceCount(&count) != hipSuccess) count = 0;
  if (count) hipLaunchKernelGGL(scale, dim3(1), dim3(64), 0, 0, nullptr, 2.0f, 0);
  return PyLong_FromLong(count);
}

static PyMethodDef methods[] = {{"devices", devices, METH_NOARGS, "Return how many AMD GPUs there are."}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernel", nullptr, -1, methods};

PyMODINIT_FUNC PyInit_kernel() { return PyModule_Create(&module); }
"""
BOTH = "gfx90a, gfx1030"


def installed() -> str:
    return str(KNOWN.version) if KNOWN else ""


def config(archs: str, rocm: str = "") -> str:
    return CONFIG.format(python=own_python(), rocm=rocm or installed(), archs=archs)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A package with one kernel."""
    files = {
        "fatwheel.yml": config(BOTH),
        "one.yml": config("gfx90a"),
        "pyproject.toml": PROJECT,
        "setup.py": SETUP,
        "small/__init__.py": "",
        "small/kernel.hip": KERNEL,
    }
    return write(tmp_path / "small", files)


def built(fatwheel: CommandLine, project: Path, name: str, out: str) -> Path:
    """Return the wheel that a config's ROCm job makes."""
    ran = fatwheel("build", name, "--job", f"linux-rocm-rocm{installed()}", "--out", out, cwd=project)
    assert ran.status == 0, ran.stderr
    (wheel,) = (project / out).glob("*.whl")
    return wheel


def findings(ran: Ran, rule: str) -> list[tuple[str, str, str]]:
    return [(one["level"], one["found"], one["expected"]) for one in json.loads(ran.stdout) if one["rule"] == rule]


def audited(fatwheel: CommandLine, wheel: Path, project: Path) -> Ran:
    return fatwheel("audit", wheel, "--config", "fatwheel.yml", "--format", "json", cwd=project)


def test_a_kernel_is_in_its_wheel_for_each_target_asked_for(fatwheel: CommandLine, small: Path, tmp_path: Path) -> None:
    wheel = built(fatwheel, small, "fatwheel.yml", "dist")
    assert wheel.name == f"small-1.0+rocm{installed()}-cp310-abi3-linux_x86_64.whl"
    shutil.unpack_archive(wheel, tmp_path / "unpacked", "zip")
    with (tmp_path / "unpacked/small/kernel.abi3.so").open("rb") as library:
        (unit,) = units(library)
    assert {(str(code.image), kernel) for code in unit.codes for kernel in code.kernels or ()} == {
        ("gfx90a", "_Z5scalePffi"),
        ("gfx1030", "_Z5scalePffi"),
    }
    ran = audited(fatwheel, wheel, small)
    assert (ran.status, findings(ran, "fatbinary"), findings(ran, "prediction")) == (0, [], [])


def test_a_wheel_without_one_of_its_targets_is_refused(fatwheel: CommandLine, small: Path) -> None:
    wheel = built(fatwheel, small, "one.yml", "one")
    ran = audited(fatwheel, wheel, small)
    assert ran.status == 1, ran.stderr
    missing, unserved = findings(ran, "fatbinary")
    assert missing == ("error", "gfx90a", "gfx1030, gfx90a")
    assert unserved == ("warning", "gfx90a", "gfx1030")


def test_the_same_source_makes_the_same_bytes(fatwheel: CommandLine, small: Path) -> None:
    first, second = (built(fatwheel, small, "fatwheel.yml", out).read_bytes() for out in ("first", "second"))
    assert first == second


def test_a_hipcc_of_another_version_builds_nothing(fatwheel: CommandLine, small: Path) -> None:
    other = next(version for version in load().stacks[ROCM] if str(version) != installed())
    (small / "fatwheel.yml").write_text(config(BOTH, str(other)))
    ran = fatwheel("build", "--job", f"linux-rocm-rocm{other}", "--out", "dist", cwd=small)
    assert (ran.status, f"no ROCm {other} is installed" in ran.stderr) == (3, True), ran.stderr
    assert f"found {installed()} in " in ran.stderr


@pytest.mark.parametrize("local", ["", "+cu130", "+rocm99.1", "+rocm{rocm}", "+rocm{rocm}.4"])
def test_a_build_gets_a_torch_for_its_rocm_or_none(
    fatwheel: CommandLine, small: Path, tmp_path: Path, local: str
) -> None:
    version = f"9.9{local.format(rocm=installed())}"
    make(tmp_path / "links", f"torch-{version}-py3-none-any.whl", {"torch/__init__.py": b""})
    (small / "pyproject.toml").write_text(PROJECT.replace('["setuptools>=77"]', '["setuptools>=77", "torch==9.9"]'))
    job = f"linux-rocm-rocm{installed()}"
    ran = fatwheel("build", "--job", job, "--out", "dist", cwd=small, PIP_FIND_LINKS=str(tmp_path / "links"))
    is_right = local.startswith("+rocm{rocm}")
    assert ran.status == (0 if is_right else 3), ran.stderr
    said = f"the build would get torch {version}, expected one for rocm{installed()}"
    assert (said in ran.stderr) is not is_right


def compiled(folder: Path, *archs: str, only_asked: bool = False) -> subprocess.CompletedProcess[str]:
    """Compile an empty kernel for those targets, or ask only whether that could be."""
    source = write(folder, {"k.hip": "__attribute__((global)) void k() {}\n"}) / "k.hip"
    targets = [f"--offload-arch={arch}" for arch in archs]
    asked = ["-###"] if only_asked else []
    kind = ["-c", "--cuda-device-only", "-nogpuinc", "-nogpulib"]
    flags = [*asked, *kind, *targets, str(source), "-o", str(folder / "k")]
    environ = {"PATH": "/usr/bin:/bin", "HIP_PLATFORM": "amd"}
    return subprocess.run([HIPCC or "", *flags], check=False, env=environ, capture_output=True, text=True)


@pytest.mark.parametrize("arch", ["gfx90a:sramecc+:xnack-", "gfx1030"])
def test_a_bundle_names_a_target_as_a_request_does(arch: str, tmp_path: Path) -> None:
    assert compiled(tmp_path, arch).returncode == 0
    with (tmp_path / "k").open("rb") as bundle:
        assert {str(code.image) for unit in units(bundle) for code in unit.codes} == {str(GfxArch.parse(arch))}


def test_the_catalog_has_the_targets_that_the_compiler_knows_and_no_other(tmp_path: Path) -> None:
    known = load().stacks[ROCM][Minor.parse(installed())].architectures
    others = {arch for rocm in load().stacks[ROCM].values() for arch in rocm.architectures} - known
    assert compiled(tmp_path, *known, only_asked=True).returncode == 0
    assert {arch for arch in others if compiled(tmp_path, arch, only_asked=True).returncode == 0} == set()


def test_the_catalog_has_the_features_that_the_compiler_knows(tmp_path: Path) -> None:
    known = load().stacks[ROCM][Minor.parse(installed())].architectures
    features = gfx_facts().features
    for name, takers in features.items():
        found = {arch for arch in known if compiled(tmp_path, f"{arch}:{name}+", only_asked=True).returncode == 0}
        assert found == takers & known
