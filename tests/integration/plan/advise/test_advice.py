from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ci_tools.evidence.includes import Includes
from ci_tools.evidence.limited_api import uses
from ci_tools.evidence.source import tree_at
from ci_tools.formats import edits
from ci_tools.formats.toml import text as toml_text
from ci_tools.model.files import Receipt
from ci_tools.model.versions import Minor
from ci_tools.plan import make
from ci_tools.plan.advise import advice as advise
from ci_tools.verify import patches
from tests.builders.sources import PROJECT, demo, plan_of, shared_world, world, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ci_tools.plan.advise.advice import Advised
    from ci_tools.plan.make import Planned
    from ci_tools.verify.patches import Patched

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="what setup.py builds is observed on Linux"),
    pytest.mark.slow,  # many real processes
]

SETUPTOOLS = '[build-system]\nrequires = ["setuptools==80.9.0"]\nbuild-backend = "setuptools.build_meta"\n'
SCIKIT = """\
[build-system]
requires = ["scikit-build-core==0.11.6"]
build-backend = "scikit_build_core.build"
[project]
name = "demo"
version = "1.0"
[tool.scikit-build]
minimum-version = "0.11"
"""
PYTHONS = 'package: demo\npython: ["3.10", "3.11", "3.12", "3.13"]\n'
CPU = "platforms:\n  linux-cpu: {owner: us}\n"
CUDA = 'platforms:\n  linux-cuda:\n    owner: us\n    cuda: ["12.6", "12.9", "13.0"]\n    archs: ["9.0"]\n'
TORCHES = 'torch: ["2.12", "2.13"]\n'
MODULE = """\
#include <Python.h>
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_demo", "", -1, NULL};
PyMODINIT_FUNC PyInit__demo(void) { return PyModule_Create(&module); }
"""
EXTENSION = """\
from setuptools import Extension, setup

setup(
    name="demo",
    version="1.0",
    ext_modules=[
        Extension(
            "_demo",
            ["demo.c"],  # all there is
        ),
    ],
)
"""
TORCH = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

setup(
    name="demo",
    version="1.0",
    ext_modules=[CppExtension("demo._C", ["a.cpp", "b.cpp"], extra_compile_args=["-O3"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(demo LANGUAGES C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
Python_add_library(_demo MODULE demo.c WITH_SOABI)
"""
STABLE = {"a.cpp": "#include <torch/csrc/stable/library.h>\n", "b.cpp": ""}
C_EXTENSION = {"fatwheel.yml": PYTHONS + CPU, "pyproject.toml": SETUPTOOLS, "setup.py": EXTENSION, "demo.c": MODULE}
PYBIND = {**C_EXTENSION, "demo.c": "#include <pybind11/pybind11.h>\n#include <Python.h>\n"}
UNSTABLE = {
    "fatwheel.yml": PYTHONS + TORCHES + CPU,
    "pyproject.toml": SETUPTOOLS,
    "setup.py": TORCH,
    "a.cpp": "#include <torch/library.h>\n#include <ATen/ATen.h>\n",
    "b.cpp": '#include "b.h"\n',
    "b.h": "#include <c10/core/Device.h>\n",
}
UNTARGETED = {"fatwheel.yml": PYTHONS + TORCHES + CPU, "pyproject.toml": SETUPTOOLS, "setup.py": TORCH, **STABLE}
SCIKIT_MODULE = {
    "fatwheel.yml": PYTHONS + CPU, "pyproject.toml": SCIKIT, "CMakeLists.txt": CMAKE, "demo.c": MODULE,
}  # fmt: skip
FREE_THREADED = {**C_EXTENSION, "fatwheel.yml": PYTHONS.replace('"3.13"', '"3.13", "3.14t"') + CPU}
MINORS = {"fatwheel.yml": PYTHONS + CUDA, "pyproject.toml": f"{SCIKIT}wheel.py-api = 'py3'\n", "CMakeLists.txt": ""}
UNDECLARED = "the limited API of Python 3.10 is not declared, which keeps the Python axis"
UNBOUND = "nothing that is compiled includes Python.h, but the wheel's tag keeps the Python axis"
ONE_PER_MAJOR = {**MINORS, "fatwheel.yml": f"{PYTHONS}{CUDA}    one-per-major: true\n"}
BEYOND = {**C_EXTENSION, "demo.c": f"{MODULE}#define SIZE(o) PyTuple_GET_SIZE(o)\n"}
HIDDEN = {**C_EXTENSION, "setup.py": EXTENSION.replace("\n    version", "\n    **{},\n    version")}
MESON = {
    "fatwheel.yml": PYTHONS + CPU,
    "pyproject.toml": PROJECT.replace("flit_core.buildapi", "mesonpy"),
    "meson.build": "project('demo', 'c')\npy = import('python').find_installation(pure: false)\n"
    "py.extension_module('_demo', 'demo.c', install: true)\n",
    "demo.c": MODULE,
}
NEWER = {**SCIKIT_MODULE, "pyproject.toml": f"{SCIKIT}wheel.py-api = 'cp312'\n"}
CYTHON = {**SCIKIT_MODULE, "demo.pyx": "from libc.math cimport sin\n", "demo.c": ""}
FORTRAN = {**SCIKIT_MODULE, "demo.f90": "", "demo.c": ""}
RUST = {
    "fatwheel.yml": PYTHONS + CPU,
    "pyproject.toml": PROJECT.replace("flit_core.buildapi", "maturin"),
    "Cargo.toml": '[package]\nname = "demo"\nversion = "1.0.0"\n[lib]\ncrate-type = ["cdylib"]\n'
    '[dependencies]\npyo3 = "0.26"\n',
    "src/lib.rs": "",
}
NEEDLESS = {
    "fatwheel.yml": "package: demo\npython: ['3.12']\nplatforms:\n"
    "  linux-cpu: {owner: us, enabled: true}\n  macos-arm64:\n"
}
GLOBS = {"fatwheel.yml": f"{PYTHONS}platforms:\n  linux-cpu: {{owner: us, native: ['*.cu']}}\n", "k.cu": ""}


def planned_of(folder: Path) -> Planned:
    return make.make_plan(folder / "fatwheel.yml", shared_world())


def consulted(folder: Path) -> tuple[Planned, Advised, Sequence[Patched]]:
    planned = planned_of(folder)
    return planned, *patches.consult(planned, folder / "dist")


def apply(patch: str, folder: Path) -> None:
    subprocess.run(["git", "apply", "-"], cwd=folder, input=patch.encode(), check=True, capture_output=True)


# ---------------------------------------------------------------- what is advised


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        pytest.param(C_EXTENSION, {
            "python-limited-api": f"{UNDECLARED}: 4 wheels become 1",
        }, id="a-c-extension-without-the-limited-api"),
        pytest.param(FREE_THREADED, {
            "python-limited-api": f"{UNDECLARED}: 5 wheels become 2",
        }, id="free-threaded-python-stays-apart"),
        pytest.param(PYBIND, {
            "python-bindings": "1 include of pybind11 or the like keeps the Python axis: 4 wheels become 3",
        }, id="pybind11"),
        pytest.param(UNSTABLE, {
            "python-limited-api": f"{UNBOUND}: 8 wheels become 2",
            "torch-stable-abi": "3 includes keep the torch axis: 8 wheels become 4",
        }, id="three-unstable-includes"),
        pytest.param(UNTARGETED, {
            "python-limited-api": f"{UNBOUND}: 8 wheels become 2",
            "torch-target-version": "only stable torch headers are included, but the missing TORCH_TARGET_VERSION "
                                    "keeps the torch axis: 8 wheels become 4",
        }, id="stable-includes-without-a-target"),
        pytest.param(SCIKIT_MODULE, {
            "python-limited-api": f"{UNDECLARED}: 4 wheels become 1",
        }, id="scikit-build-core-without-py-api"),
        pytest.param(MESON, {"python-limited-api": f"{UNDECLARED}: 4 wheels become 1"}, id="meson-python"),
        pytest.param(CYTHON, {"python-limited-api": f"{UNDECLARED}: 4 wheels become 1"}, id="cython"),
        pytest.param(RUST, {"python-limited-api": f"{UNDECLARED}: 4 wheels become 1"}, id="rust"),
        pytest.param(FORTRAN, {}, id="what-no-text-shows"),
        pytest.param(NEWER, {
            "requires-python": "the limited API starts at 3.12, so Python 3.10 and 3.11 need their own wheels; "
                               "without them: 3 wheels become 1",
        }, id="pythons-below-the-limited-api"),
        pytest.param(MINORS, {
            "one-per-major": "CUDA 12.6 and 12.9 have one wheel each on linux-cuda, not one for each major: "
                             "3 wheels become 2",
        }, id="two-minors-of-one-cuda-major"),
        pytest.param(NEEDLESS, {
            "enabled": "`enabled: true` gives linux-cpu a wheel of its own, though nothing is compiled for it: "
                       "2 wheels become 1",
        }, id="a-platform-enabled-for-nothing"),
        pytest.param({}, {}, id="a-plan-that-is-as-small-as-can-be"),
        pytest.param(ONE_PER_MAJOR, {}, id="one-for-each-major"),
        pytest.param(GLOBS, {
            "native-globs": "the native globs of linux-cpu match k.cu, but nothing is compiled: 4 wheels become 1",
        }, id="native-globs-for-nothing"),
    ],
)  # fmt: skip
def test_advice_says_what_a_plan_would_shrink_to(tmp_path: Path, files: dict[str, str], advice: dict[str, str]) -> None:
    _, advised, _ = consulted(demo(tmp_path / "a", files))
    assert {one.option.name: one.sentence for one in advised.advice} == advice


@pytest.mark.parametrize(
    ("files", "name", "places"),
    [
        pytest.param(C_EXTENSION, "python-limited-api", [
            "observed by running setup.py: its wheel is tagged for the Python that builds it",
            "setup.py:7: an extension without py_limited_api",
        ], id="the-extension"),
        pytest.param(PYBIND, "python-bindings", ["demo.c:1: includes pybind11/pybind11.h"], id="pybind11"),
        pytest.param(UNSTABLE, "torch-stable-abi", [
            "a.cpp:1: includes torch/library.h",
            "a.cpp:2: includes ATen/ATen.h",
            "b.h:1: includes c10/core/Device.h",
        ], id="every-unstable-include"),
        pytest.param(UNTARGETED, "torch-target-version", [
            "a.cpp:1: includes torch/csrc/stable/library.h, but nothing sets TORCH_TARGET_VERSION",
        ], id="the-missing-target"),
        pytest.param(BEYOND, "python-limited-api", ["demo.c:4: PyTuple_GET_SIZE"], id="what-the-limited-api-lacks"),
        pytest.param(MINORS, "one-per-major", ["fatwheel.yml:4: no `one-per-major`"], id="the-platform"),
    ],
)  # fmt: skip
def test_advice_names_every_place_that_stands_in_its_way(
    tmp_path: Path, files: dict[str, str], name: str, places: list[str]
) -> None:
    _, advised, _ = consulted(demo(tmp_path / "a", files))
    assert [list(one.option.places) for one in advised.advice if one.option.name == name] == [places]


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(PYBIND, id="pybind11"),
        pytest.param(BEYOND, id="beyond-the-limited-api"),
        pytest.param(HIDDEN, id="arguments-that-are-hidden"),
        pytest.param(CYTHON, id="cython"),
        pytest.param(RUST, id="rust"),
    ],
)  # fmt: skip
def test_what_takes_more_than_an_edit_has_no_patch(tmp_path: Path, files: dict[str, str]) -> None:
    planned, _, patched = consulted(demo(tmp_path / "a", files))
    assert ([one.patch for one in patched], patches.patch_of_all(planned, patched)) == ([""], "")


def test_torch_before_the_stable_abi_is_left_out_of_both_counts(tmp_path: Path) -> None:
    config = f'{PYTHONS}torch: ["2.9", "2.12", "2.13"]\n{CPU}'
    _, advised, _ = consulted(demo(tmp_path / "a", {**UNSTABLE, "fatwheel.yml": config}))
    found = next(one for one in advised.advice if one.option.name == "torch-stable-abi")
    assert found.sentence == ("asked for only from torch 2.12 up, 3 includes keep the torch axis: 8 wheels become 4")
    assert (advised.limits, advised.before, advised.after) == (" that gives up no cell", 12, 3)


def test_a_torch_that_the_project_refuses_changes_nothing_of_the_advice(tmp_path: Path) -> None:
    project = f'{SETUPTOOLS}[project]\nname = "demo"\nversion = "1.0"\ndependencies = ["torch>=2.13"]\n'
    config = f'{PYTHONS}torch: ["2.12", "2.13", "2.14"]\n{CPU}'
    _, advised, _ = consulted(demo(tmp_path / "a", {**UNSTABLE, "pyproject.toml": project, "fatwheel.yml": config}))
    assert "3 includes keep the torch axis: 8 wheels become 4" in [one.sentence for one in advised.advice]


def test_all_advice_together_is_planned_together(tmp_path: Path) -> None:
    _, advised, _ = consulted(demo(tmp_path / "a", UNTARGETED))
    assert (advised.before, advised.after) == (8, 1)


# ---------------------------------------------------------------- what it saves


def receipt(wheel: str, seconds: float, size: int) -> Receipt:
    return Receipt(
        file=wheel, sha256="", size=size, project="demo", version="1.0", job="", source="", key="", seconds=seconds
    )


@pytest.mark.parametrize(
    ("seconds", "saved"),
    [
        pytest.param([60, 60, 60, 120], (3.0, 3.0), id="all-were-built"),
        pytest.param([60, 60, 60], (None, None), id="one-was-never-built"),
        pytest.param([], (None, None), id="none-was-built"),
    ],
)
def test_minutes_and_megabytes_are_said_where_they_were_measured(
    tmp_path: Path, seconds: list[float], saved: tuple[float | None, float | None]
) -> None:
    planned = planned_of(demo(tmp_path / "a", C_EXTENSION))
    wheels = zip(planned.plan.jobs, seconds, strict=False)
    known = {job.wheel: receipt(job.wheel, took, 1_000_000) for job, took in wheels}
    found = advise.advise(advise.Case(planned.plan, planned.evidence, planned.catalog, planned.tree, known)).advice[0]
    assert (found.minutes, found.megabytes) == saved


# ---------------------------------------------------------------- patches


@pytest.mark.parametrize(
    ("files", "jobs"),
    [
        pytest.param(C_EXTENSION, 1, id="setuptools"),
        pytest.param(FREE_THREADED, 2, id="setuptools-with-a-free-threaded-python"),
        pytest.param(UNTARGETED, 1, id="torch-target-and-limited-api"),
        pytest.param(SCIKIT_MODULE, 1, id="scikit-build-core"),
        pytest.param({**SCIKIT_MODULE, "demo.c": "", "CMakeLists.txt": "project(demo)\n"}, 1, id="py3-none"),
        pytest.param({**UNTARGETED, "pyproject.toml": f"{SCIKIT}wheel.py-api = 'py3'\n",
                      "CMakeLists.txt": "project(demo LANGUAGES CXX)\nadd_library(_C MODULE a.cpp)\n"}, 1,
                     id="torch-target-for-cmake"),
        pytest.param(MESON, 1, id="meson-python"),
        pytest.param(MINORS, 2, id="config-in-block-style"),
        pytest.param(NEEDLESS, 1, id="config-in-flow-style"),
        pytest.param({**C_EXTENSION, "setup.py": EXTENSION.replace("\n", "\r\n")}, 1, id="line-ends-of-windows"),
        pytest.param({**C_EXTENSION, "setup.py": EXTENSION.rstrip("\n")}, 1, id="a-last-line-without-an-end"),
    ],
)  # fmt: skip
def test_a_source_with_its_patch_has_the_plan_that_was_promised(
    tmp_path: Path, files: dict[str, str], jobs: int
) -> None:
    folder = demo(tmp_path / "a", files)
    planned, advised, patched = consulted(folder)
    apply(patches.patch_of_all(planned, patched), folder)
    assert (len(plan_of(folder, shared_world()).jobs), advised.after) == (jobs, jobs)


@pytest.mark.parametrize("files", [pytest.param(UNTARGETED, id="torch"), pytest.param(C_EXTENSION, id="c")])
def test_each_patch_by_itself_keeps_its_promise(tmp_path: Path, files: dict[str, str]) -> None:
    _, _, patched = consulted(demo(tmp_path / "a", files))
    for number, (found, patch) in enumerate(patched):
        folder = demo(tmp_path / f"b{number}", files)
        apply(patch, folder)
        assert len(plan_of(folder, shared_world()).jobs) == found.after


def test_a_patch_that_gives_up_cells_is_one_by_itself(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", {**NEWER, "demo.c": ""})
    planned, advised, patched = consulted(folder)
    assert (patches.patch_of_all(planned, patched), advised.after, len(planned.plan.jobs)) == ("", 3, 3)
    apply(patched[0].patch, folder)
    assert len(plan_of(folder, shared_world()).jobs) == 1


def test_a_patch_keeps_all_else_as_it_was_written(tmp_path: Path) -> None:
    planned, _, patched = consulted(demo(tmp_path / "a", C_EXTENSION))
    assert (
        patches.patch_of_all(planned, patched)
        == patched[0].patch
        == """\
--- a/setup.py
+++ b/setup.py
@@ -7,6 +7,9 @@
         Extension(
             "_demo",
             ["demo.c"],  # all there is
+            py_limited_api=True,
+            define_macros=[("Py_LIMITED_API", "0x030A0000")],
         ),
     ],
+    options={"bdist_wheel": {"py_limited_api": "cp310"}},
 )
"""
    )


def test_a_source_is_left_alone(tmp_path: Path) -> None:
    folder = demo(tmp_path / "a", C_EXTENSION)
    before = tree_at(folder, {}).sha256
    consulted(folder)
    assert tree_at(folder, {}).sha256 == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("Extension('a', [])", "Extension('a', [], py_limited_api=True, "
                     'define_macros=[("Py_LIMITED_API", "0x030A0000")])', id="on-one-line"),
        pytest.param("Extension('a', [], define_macros=[('A', '1')])", "Extension('a', [], define_macros=[('A', '1'), "
                     '("Py_LIMITED_API", "0x030A0000")], py_limited_api=True)', id="macros-written-out"),
        pytest.param("Extension('a', [], define_macros=m)", "Extension('a', [], define_macros=[*m, "
                     '("Py_LIMITED_API", "0x030A0000")], py_limited_api=True)', id="macros-by-name"),
        pytest.param("Extension('ä', [], py_limited_api=False)", "Extension('ä', [], py_limited_api=True, "
                     'define_macros=[("Py_LIMITED_API", "0x030A0000")])', id="switched-off-and-not-ascii"),
        pytest.param("CUDAExtension('a', [])", "CUDAExtension('a', [], py_limited_api=True)",
                     id="torch-defines-the-macro-by-itself"),
        pytest.param("CppExtension(\n  'a',\n  []  # none\n)",
                     "CppExtension(\n  'a',\n  [],  # none\n  py_limited_api=True\n)", id="a-comment-stays-put"),
        pytest.param("Extension('a', [], **more)", None, id="arguments-that-are-hidden"),
        pytest.param("Extension('a', [], define_macros=m())", None, id="macros-by-a-call"),
        pytest.param("Extension('a', ([]))", None, id="a-last-argument-in-parentheses"),
        pytest.param("setup()", None, id="no-extension"),
        pytest.param("Extension(", None, id="no-python"),
    ],
)  # fmt: skip
def test_the_limited_api_is_put_into_an_extension(before: str, after: str | None) -> None:
    found = edits.declare_limited_api(f"{before}\nsetup()\n", Minor(3, 10), free_threaded=False)
    tagged = 'setup(options={"bdist_wheel": {"py_limited_api": "cp310"}})'
    assert found == (after and f"{after}\n{tagged}\n")


def test_an_extension_is_left_as_it_is_where_the_wheel_gets_its_tag_elsewhere() -> None:
    assert edits.declare_limited_api("Extension('a', [])\n", Minor(3, 10), free_threaded=False) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("[tool.scikit-build]\n", '[tool.scikit-build]\nwheel.py-api = "cp310"\n', id="its-table"),
        pytest.param(
            "[tool.scikit-build.wheel]\na = 1", '[tool.scikit-build.wheel]\npy-api = "cp310"\na = 1', id="the-wheels"
        ),
        pytest.param("[project]", '[project]\n\n[tool.scikit-build]\nwheel.py-api = "cp310"\n', id="no-table"),
        pytest.param('[tool.scikit-build]\nwheel.py-api = ""\n', None, id="set-already"),
        pytest.param('a = """\n[tool.scikit-build]\n"""\n', None, id="a-table-in-a-text"),
    ],
)  # fmt: skip
def test_py_api_is_put_into_a_pyproject(before: str, after: str | None) -> None:
    assert toml_text.set_py_api(before, "cp310") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('[project]\nrequires-python = ">=3.9"', '[project]\nrequires-python = ">=3.12"', id="the-oldest"),
        pytest.param("[project]\n", '[project]\nrequires-python = ">=3.12"\n', id="none-is-named"),
        pytest.param('[project]\nrequires-python = ">=3.9,<3.14"', None, id="others-are-named-too"),
        pytest.param('[project]\ndynamic = ["requires-python"]', None, id="the-build-names-it"),
        pytest.param("[tool.x]\n", None, id="no-project"),
        pytest.param('[tool.x]\na = """\n[project]\n"""\n', None, id="a-table-in-a-text"),
    ],
)  # fmt: skip
def test_a_newer_python_is_asked_for(before: str, after: str | None) -> None:
    assert toml_text.raise_requires_python(before, Minor(3, 12)) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("extension_module('a', 'a.c')", "extension_module('a', 'a.c', limited_api: '3.10')", id="line"),
        pytest.param("extension_module(\n  'a',\n  f('x)'),\n)\n",
                     "extension_module(\n  'a',\n  f('x)'),\n  limited_api: '3.10',\n)\n", id="lines"),
        pytest.param("extension_module(\n  'a' # b\n)", None, id="a-comment-at-the-end"),
        pytest.param("extension_module('a', limited_api: '3.11')", None, id="limited-already"),
        pytest.param("extension_module('a'", None, id="no-end"),
    ],
)  # fmt: skip
def test_the_limited_api_is_put_into_a_meson_build(before: str, after: str | None) -> None:
    assert edits.declare_meson_limited_api(before, Minor(3, 10)) == after


# ---------------------------------------------------------------- the limited API


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("Py_INCREF(o); PyLong_FromLong(1); PyList_Check(o); Py_RETURN_NONE;", [], id="of-it"),
        pytest.param("PyTuple_GET_ITEM(t, 0);", ["a.c:1: PyTuple_GET_ITEM None"], id="a-macro-that-reads-a-structure"),
        pytest.param("\nPyObject_GetBuffer(o, b, 0);", ["a.c:2: PyObject_GetBuffer 3.11"], id="of-it-since-3.11"),
        pytest.param("static PyTypeObject T = {0};", ["a.c:1: PyTypeObject T None"], id="a-static-type"),
        pytest.param("_PyLong_Sign(o);", ["a.c:1: _PyLong_Sign None"], id="private"),
        pytest.param("// PyTuple_GET_ITEM(t, 0)\n/* _PyLong_Sign(o) */", [], id="in-a-comment"),
        pytest.param('#include "b.h"\n', ["b.h:1: PyCell_Check None"], id="in-a-header-of-its-own"),
    ],
)  # fmt: skip
def test_a_source_shows_what_the_limited_api_lacks(tmp_path: Path, text: str, found: list[str]) -> None:
    tree = tree_at(write(tmp_path / "a", {"a.c": text, "b.h": "PyCell_Check(o)"}), {})
    lacking = uses(Includes(tree), ["a.c"], Minor(3, 10))
    assert [f"{use.place}: {use.name} {use.since}" for use in lacking] == found


# ---------------------------------------------------------------- architectures

CHIP = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

nvcc = ["-gencode", "arch=compute_90a,code=sm_90a"]
setup(
    name="demo",
    version="1.0",
    ext_modules=[CUDAExtension("_C", ["a.cu", "b.cu", "c.cu"], extra_compile_args={"cxx": [], "nvcc": nvcc})],
    cmdclass={"build_ext": BuildExtension},
)
"""
HOPPER = '#include <torch/all.h>\n__device__ void f() { asm("wgmma.fence.sync.aligned;"); }\n'


@pytest.mark.parametrize(
    ("sources", "advice"),
    [
        pytest.param([HOPPER, "", ""], [
            "1 of 3 files of _C uses features that only sm_90a has, and all 3 are compiled for it",
            "a.cu:2: wgmma", "setup.py:4: compute_90a",
        ], id="one-needs-it"),
        pytest.param([HOPPER, HOPPER, HOPPER], [], id="all-need-it"),
        pytest.param(["", "", ""], [], id="none-is-seen-to-need-it"),
        pytest.param([HOPPER, "#include <cutlass/gemm.h>\n", "#include <cute/layout.hpp>\n"], [], id="others-may"),
    ],
)  # fmt: skip
def test_one_file_that_forces_an_architecture_on_all_is_named(
    tmp_path: Path, sources: list[str], advice: list[str]
) -> None:
    config = f'{PYTHONS}torch: ["2.12"]\nplatforms:\n  linux-cuda: {{owner: us, cuda: ["12.9"], archs: ["9.0"]}}\n'
    kernels = dict(zip(["a.cu", "b.cu", "c.cu"], sources, strict=True))
    files = {"fatwheel.yml": config, "pyproject.toml": SETUPTOOLS, "setup.py": CHIP, **kernels}
    _, advised, _ = consulted(demo(tmp_path / "a", files))
    found = [(one.sentence, *one.option.places) for one in advised.advice if one.option.name == "one-chip"]
    assert [line for lines in found for line in lines] == advice


# ---------------------------------------------------------------- proof


def test_a_patch_that_does_not_do_what_it_promises_has_failed(tmp_path: Path) -> None:
    planned, _, patched = consulted(demo(tmp_path / "a", NEEDLESS))
    wrong = replace_after(patched[0], 7)
    proof = patches.prove(planned, [wrong], world(tmp_path))[0]
    assert (proof.outcome, proof.details, patches.status([proof])) == (
        "failed", ("the plan has 1 jobs with it, expected 7",), 1,
    )  # fmt: skip


def replace_after(patched: Patched, after: int) -> Patched:
    return patched._replace(advice=patched.advice._replace(after=after))


def test_a_patch_that_does_not_apply_has_failed(tmp_path: Path) -> None:
    planned, _, patched = consulted(demo(tmp_path / "a", C_EXTENSION))
    broken = patched[0]._replace(patch=patched[0].patch.replace("all there is", "something else"))
    proof = patches.prove(planned, [broken], world(tmp_path))[0]
    assert (proof.outcome, proof.after) == ("failed", None)
    assert proof.details[0].startswith("git does not apply the patch: error: ")


def test_each_patch_is_proven_by_itself_and_then_all_together(tmp_path: Path) -> None:
    config = f"{PYTHONS}{TORCHES}platforms:\n  windows: {{owner: us}}\n"
    planned, _, patched = consulted(demo(tmp_path / "a", {**UNTARGETED, "fatwheel.yml": config}))
    proofs = patches.prove(planned, patched, world(tmp_path))
    assert [(one.name, one.before, one.after, one.outcome) for one in proofs] == [
        ("python-limited-api", 8, 2, "not exercised"),
        ("torch-target-version", 8, 4, "not exercised"),
        ("all patches together", 8, 1, "not exercised"),
    ]
    assert proofs[2].details[0].startswith("windows: not built: windows wheels are built on ")
    assert patches.status(proofs) == 0
