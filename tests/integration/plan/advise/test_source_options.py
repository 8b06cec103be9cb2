"""Options about the sources of extensions: one chip for all files of a library, and Python.h for nothing."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from ci_tools.plan import make
from ci_tools.verify import patches
from ci_tools.verify.patches import Patched
from tests.builders.advised import OBSERVED, PYTHONS, SETUPTOOLS, consult
from tests.builders.compilers import compile_cxx, has_compiler
from tests.builders.sources import committed, demo, shared_world, write
from tests.integration.conftest import CommandLine

pytestmark = OBSERVED

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
    _, advised, _ = consult(demo(tmp_path / "a", files))
    found = [(one.sentence, *one.option.places) for one in advised.advice if one.option.name == "one-chip"]
    assert [line for lines in found for line in lines] == advice


CONFIG = """\
package: demo
python: ["3.11", "3.12"]
torch: ["2.13"]
platforms: {linux-cpu: {owner: us}}
"""
PYPROJECT = """\
[build-system]
requires = ["setuptools", "torch"]
build-backend = "setuptools.build_meta"
[project]
name = "demo"
version = "1.0"
"""
SETUP = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
setup(
    ext_modules=[CppExtension("demo", ["binding.cpp", "op.cpp"])],
    cmdclass={"build_ext": BuildExtension},
)
"""
FILES = {
    "fatwheel.yml": CONFIG,
    "pyproject.toml": PYPROJECT,
    "setup.py": SETUP,
    "op.h": "#pragma once\n#include <torch/extension.h>\ntorch::Tensor op(torch::Tensor x);\n",
    "op.cpp": '#include <torch/extension.h>\n#include "op.h"\ntorch::Tensor op(torch::Tensor x) { return x.relu(); }\n',
    "binding.cpp": '#include "op.h"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("op", &op); }\n',
}


def try_options(root: Path) -> dict[str, Patched]:
    planned = make.make_plan(root / "fatwheel.yml", shared_world())
    return {one.advice.option.name: one for one in patches.consult(planned, root / "dist", shared_world())[1]}


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose kernels reach Python.h, with the patch of its advice applied."""
    root = write(tmp_path_factory.mktemp("headers") / "demo", FILES)
    found = try_options(root)["python-header"]
    assert found.advice.sentence == (
        "1 file of 2 reach Python.h and use nothing of it: each Python compiles them again"
    )
    assert found.advice.option.places == (
        "op.cpp:1: includes torch/extension.h",
        "op.h:2: includes torch/extension.h",
    )
    committed(root)
    subprocess.run(["git", "apply", "-"], cwd=root, input=found.patch, text=True, check=True)
    return root


def test_the_explained_plan_names_the_files(fatwheel: CommandLine, tmp_path: Path) -> None:
    ran = fatwheel("plan", "--explain", cwd=write(tmp_path, FILES))
    first, second = " op.cpp   op.cpp:1: includes torch/extension.h", "          op.h:2: includes torch/extension.h"
    assert f"{first}\n{second}" in ran.stdout


def test_the_patch_keeps_python_where_it_is_used(patched: Path) -> None:
    firsts = {name: (patched / name).read_text().splitlines()[:2] for name in ("op.h", "op.cpp", "binding.cpp")}
    assert firsts == {
        "op.h": ["#pragma once", "#include <torch/all.h>"],
        "op.cpp": ["#include <torch/types.h>", '#include "op.h"'],
        "binding.cpp": ["#include <torch/extension.h>", '#include "op.h"'],
    }
    assert "python-header" not in try_options(patched)


OLD_AND_NEW = CONFIG.replace('["2.13"]', '["2.12", "2.13"]')
STATED = SETUP.replace('"op.cpp"]', '"op.cpp"], extra_compile_args=["-std=c++20"]')


@pytest.mark.parametrize(
    ("files", "advised"),
    [
        pytest.param({"fatwheel.yml": OLD_AND_NEW}, True, id="torches-of-two-standards"),
        pytest.param({}, False, id="one-torch"),
        pytest.param({"fatwheel.yml": OLD_AND_NEW, "setup.py": STATED}, False, id="stated"),
    ],
)
def test_a_standard_that_changes_with_torch_is_to_be_stated(
    files: dict[str, str],
    advised: bool,  # noqa: FBT001 - a table
    tmp_path: Path,
) -> None:
    found = try_options(write(tmp_path, {**FILES, **files}))
    assert ("cxx-standard" in found) == advised
    if advised:
        assert found["cxx-standard"].advice.option.places == ("setup.py:4: an extension",)


@pytest.mark.skipif(not has_compiler(), reason="needs a C++ compiler")
def test_what_it_leaves_compiles_without_a_python(patched: Path) -> None:
    found = find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("needs a torch")
    (patched / "headers").symlink_to(Path(found.origin).parent / "include")  # its own name is another in each checkout
    folders = ["-Iheaders", "-Iheaders/torch/csrc/api/include"]
    assert compile_cxx(patched / "op.cpp", patched / "op.o", "-O0", "-std=c++20", *folders).is_file()
