"""A kernel for Intel GPUs, compiled by DPC++, read back out of its wheel, run on a CPU, and missed where it is not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ci_tools.formats.binaries.fatbinary import units
from tests.builders.sources import write
from tests.builders.sycl_compiler import VERSION, WHY, install_compiler, is_there, run_variables
from tests.builders.wheels import listed
from tests.integration.conftest import CommandLine, own_python
from tests.integration.test_hipcc import PROJECT, audited, findings

pytestmark = [pytest.mark.long, pytest.mark.skipif(not is_there(), reason=WHY)]

CONFIG = """\
package: small
python: [{python}]
platforms:
  linux-xpu:
    owner: "@demo/xpu"
    native: ["**/*.sycl"]
    wheel-platform: linux
validate:
  imports: [small]
"""
SETUP = """\
import os

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HOME = os.environ.get("CMPLR_ROOT")


class ByIcpx(build_ext):
    def build_extensions(self):
        self.compiler.src_extensions.append(".sycl")
        icpx = [os.path.join(HOME, "bin", "icpx"), "-fPIC"]
        self.compiler.set_executables(compiler_so=icpx, compiler_so_cxx=icpx)
        super().build_extensions()


kernel = Extension(
    "small.kernel",
    ["small/kernel.sycl", "small/binding.cpp"],
    extra_compile_args=["-O2", "-fsycl"],
    libraries=["sycl", "stdc++"],
    library_dirs=[os.path.join(HOME, "lib")] if HOME else [],
    py_limited_api=True,
)
setup(
    packages=["small"],
    ext_modules=[kernel] if HOME else [],
    cmdclass={"build_ext": ByIcpx},
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if HOME else {},
)
"""
KERNEL = """\
#include <sycl/sycl.hpp>
namespace oneapi = sycl::ext::oneapi;

extern "C" SYCL_EXTERNAL SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((oneapi::experimental::nd_range_kernel<1>))
void scale(float *values, float by) {
  values[oneapi::this_work_item::get_nd_item<1>().get_global_linear_id()] *= by;
}
"""
BINDING = """\
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
#include <string>
#include <sycl/sycl.hpp>

static sycl::kernel find(sycl::queue &queue, const std::string &name) {
  for (const sycl::kernel_id &id : sycl::get_kernel_ids())
    if (id.get_name() == name)
      return sycl::get_kernel_bundle<sycl::bundle_state::executable>(queue.get_context(), {queue.get_device()}, {id})
          .get_kernel(id);
  throw std::runtime_error("no kernel " + name);
}

static PyObject *scaled(PyObject *, PyObject *) try {
  sycl::queue queue;
  float *values = sycl::malloc_shared<float>(4, queue);
  for (int index = 0; index < 4; ++index) values[index] = float(index);
  sycl::kernel kernel = find(queue, "__sycl_kernel_scale");
  queue.submit([&](sycl::handler &handler) {
    handler.set_args(values, 3.0f);
    handler.parallel_for(sycl::nd_range<1>{4, 4}, kernel);
  }).wait();
  PyObject *sum = PyFloat_FromDouble(values[0] + values[1] + values[2] + values[3]);
  sycl::free(values, queue);
  return sum;
} catch (const std::exception &error) {
  PyErr_SetString(PyExc_RuntimeError, error.what());
  return nullptr;
}

static PyMethodDef methods[] = {{"scaled", scaled, METH_NOARGS, "Return the sum of 0, 1, 2 and 3, each times 3."}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernel", nullptr, -1, methods};

PyMODINIT_FUNC PyInit_kernel() { return PyModule_Create(&module); }
"""
JOB = "linux-xpu"


@pytest.fixture(scope="session")
def oneapi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of oneAPI with the compiler."""
    folder = tmp_path_factory.mktemp("oneapi")
    install_compiler(folder, sys.executable)
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A package with one kernel."""
    files = {
        "fatwheel.yml": CONFIG.format(python=own_python()),
        "pyproject.toml": PROJECT,
        "setup.py": SETUP,
        "MANIFEST.in": "graft small\n",
        "small/__init__.py": "",
        "small/kernel.sycl": KERNEL,
        "small/binding.cpp": BINDING,
    }
    return write(tmp_path / "small", files)


def built(fatwheel: CommandLine, project: Path, oneapi: Path, out: str, name: str = "fatwheel.yml") -> Path:
    """Return the wheel that a config's XPU job makes."""
    ran = fatwheel("build", name, "--job", JOB, "--out", out, cwd=project, ONEAPI_ROOT=str(oneapi))
    assert ran.status == 0, ran.stderr
    (wheel,) = (project / out).glob("*.whl")
    return wheel


def unpacked(wheel: Path, folder: Path) -> Path:
    shutil.unpack_archive(wheel, folder, "zip")
    return folder


def test_a_kernel_is_in_its_wheel_and_runs(fatwheel: CommandLine, small: Path, oneapi: Path, tmp_path: Path) -> None:
    wheel = built(fatwheel, small, oneapi, "dist")
    assert wheel.name == "small-1.0+xpu-cp310-abi3-linux_x86_64.whl"
    folder = unpacked(wheel, tmp_path / "unpacked")
    with (folder / "small/kernel.abi3.so").open("rb") as library:
        (unit,) = units(library)
    assert [(str(code.image), code.kernels) for code in unit.codes] == [("spir64", {"__sycl_kernel_scale"})]
    ran = audited(fatwheel, wheel, small)
    assert (ran.status, findings(ran, "fatbinary"), findings(ran, "prediction")) == (0, [], [])
    asked = [sys.executable, "-c", "from small import kernel; print(kernel.scaled())"]
    said = subprocess.run(asked, cwd=folder, env=dict(run_variables()), capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "18.0", said.stderr


def test_a_wheel_whose_device_code_was_left_out_is_refused(fatwheel: CommandLine, small: Path, oneapi: Path) -> None:
    (small / "hollow.yml").write_text(CONFIG.format(python=own_python()).replace("*.sycl", "binding.cpp"))
    script = (small / "setup.py").read_text()
    (small / "setup.py").write_text(script.replace('"small/kernel.sycl", ', "").replace(', "-fsycl"', ""))
    wheel = built(fatwheel, small, oneapi, "hollow", "hollow.yml")
    (small / "setup.py").write_text(script)
    ran = audited(fatwheel, wheel, small)
    assert (ran.status, findings(ran, "fatbinary")) == (1, [("error", "none", "spir64")]), ran.stderr


def test_the_same_source_makes_the_same_bytes(fatwheel: CommandLine, small: Path, oneapi: Path) -> None:
    first, second = (built(fatwheel, small, oneapi, out).read_bytes() for out in ("first", "second"))
    assert first == second


def test_a_release_puts_it_into_the_folder_of_xpu(fatwheel: CommandLine, small: Path, oneapi: Path) -> None:
    ran = fatwheel("release", "--to", "dir:index", cwd=small, ONEAPI_ROOT=str(oneapi))
    assert ran.status == 0, ran.stderr
    made = {"small-1.0.tar.gz", "small-1.0+xpu-cp310-abi3-linux_x86_64.whl"}
    assert set(listed(small / "index", "xpu", "small")) == made


def test_a_job_without_the_compiler_says_what_to_install(fatwheel: CommandLine, small: Path, tmp_path: Path) -> None:
    ran = fatwheel("build", "--job", JOB, "--out", "dist", cwd=small, ONEAPI_ROOT=str(tmp_path / "nothing"))
    assert (ran.status, "expected Intel's Deep Learning Essentials" in ran.stderr) == (3, True), ran.stderr
    assert VERSION not in ran.stderr
