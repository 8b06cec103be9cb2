"""What the files of a build say of device code: a switch that is off, a GPU that is asked for, or nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.catalog.accelerators.rocm import ROCM
from ci_tools.catalog.accelerators.xpu import XPU
from ci_tools.model.platforms import AcceleratorKind
from ci_tools.observe.device_code import list_device_sources, warn_of_files
from tests.unit.source.backends.test_declarative import opened, pyproject

CORE, MESON, HATCH = "scikit_build_core.build", "mesonpy", "hatchling.build"
NONE = "no kernel is compiled for it, though the source has k.cu"
CRATE = "[package]\nname = 'demo'\n[features]\n{}cuda = []\ncudnn = []\n"
BACKENDS = "set(BACKEND cpu CACHE STRING '')\nif(BACKEND STREQUAL cuda)\nelseif(BACKEND STREQUAL hip)\nendif()\n"
HOOK = "import os, torch\nif os.environ.get('DEMO_CUDA'{}) == '1':\n    compile('k.cu')\n"
BY_SETUP = "[tool.meson-python.args]\nsetup = ['-Dgpu=enabled']\n"


def warnings(folder: Path, backend: str, files: dict[str, str], kind: AcceleratorKind, **env: str) -> list[str]:
    content = pyproject(backend, files.pop("more", ""))
    project = opened(folder, {"pyproject.toml": content, "k.cu": "", "demo/__init__.py": "", **files})
    return [*warn_of_files(project, list_device_sources(project.tree, kind, "."), kind, env)]


def off(switch: str) -> str:
    return f"whether k.cu is compiled is not known; off by default: {switch})"


@pytest.mark.parametrize(
    ("backend", "files", "kind", "said"),
    [
        pytest.param(CORE, {"CMakeLists.txt": 'option(USE_ROCM "" OFF)\noption(USE_CUDA "" OFF)\n'}, ROCM,
                     off("USE_ROCM (CMakeLists.txt:1; turn on with CMAKE_ARGS=-DUSE_ROCM=ON"), id="cmake"),
        pytest.param(CORE, {"CMakeLists.txt": BACKENDS}, ROCM,
                     off("BACKEND (CMakeLists.txt:1; turn on with CMAKE_ARGS=-DBACKEND=hip"), id="cmake-by-a-choice"),
        pytest.param(CORE, {"CMakeLists.txt": "enable_language(CUDA)\nadd_library(a k.cu)\n"}, ROCM, NONE,
                     id="cmake-for-another-accelerator"),
        pytest.param(MESON, {"meson.options": "option('gpu', type: 'feature', value: 'disabled')"}, CUDA,
                     off('gpu (meson.options:1; turn on with `[tool.meson-python.args] setup = ["-Dgpu=enabled"]`'),
                     id="meson"),
        pytest.param(MESON, {"meson_options.txt": "option('for', type: 'combo', choices: ['cpu', 'cuda'], "
                             "value: 'cpu')"}, CUDA, off("for (meson_options.txt:1; turn on with "
                             '`[tool.meson-python.args] setup = ["-Dfor=cuda"]`'), id="meson-by-a-choice"),
        pytest.param(MESON, {"meson.build": "project('demo', 'cpp')\n"}, CUDA, NONE, id="meson-without-any"),
        pytest.param("maturin", {"Cargo.toml": CRATE.format("")}, CUDA,
                     off('cuda (Cargo.toml:4; turn on with `features = ["cuda"]` for maturin or RustExtension'),
                     id="cargo"),
        pytest.param(HATCH, {"hatch_build.py": HOOK.format(", '0'")}, CUDA,
                     off("DEMO_CUDA (hatch_build.py:2; turn on with DEMO_CUDA=1"), id="a-hook"),
        pytest.param(HATCH, {"more": "[tool.hatch.build.hooks.custom]\npath = 'ci/hook.py'\n", "ci/hook.py":
                             "if torch.cuda.is_available():\n    build()\n"}, CUDA, "whether k.cu is compiled is not "
                             "known; ci/hook.py:1 asks for a GPU, and builders have none", id="a-hook-asks-for-a-gpu"),
        pytest.param("flit_core.buildapi", {}, CUDA, NONE, id="nothing-compiles"),
    ],
)  # fmt: skip
def test_what_is_off_or_missing_is_told(
    tmp_path: Path, backend: str, files: dict[str, str], kind: AcceleratorKind, said: str
) -> None:
    assert warnings(tmp_path, backend, dict(files), kind) == [said]


@pytest.mark.parametrize(
    ("backend", "files", "kind", "env"),
    [
        pytest.param(CORE, {"CMakeLists.txt": BACKENDS}, ROCM, {"CMAKE_ARGS": "-DBACKEND=hip"},
                     id="the-config-sets-it"),
        pytest.param(CORE, {"CMakeLists.txt": BACKENDS, "more": "[tool.scikit-build.cmake.define]\nBACKEND = 'hip'\n"},
                     ROCM, {}, id="the-project-sets-it"),
        pytest.param(MESON, {"meson.options": "option('gpu', type: 'feature', value: 'disabled')", "more": BY_SETUP},
                     CUDA, {}, id="meson-is-told"),
        pytest.param(MESON, {"meson.build": "project('demo', 'cuda')\nlibrary('a', 'k.cu')\n"}, CUDA, {},
                     id="meson-always-compiles"),
        pytest.param("maturin", {"Cargo.toml": CRATE.format("default = ['cuda']\n")}, CUDA, {}, id="a-default-feature"),
        pytest.param("maturin", {"Cargo.toml": CRATE.format("")}, CUDA, {"MATURIN_PEP517_ARGS": "--features cuda"},
                     id="a-feature-that-is-asked-for"),
        pytest.param(HATCH, {"hatch_build.py": HOOK.format(", '1'")}, CUDA, {}, id="a-hook-does-by-default"),
        pytest.param(HATCH, {"hatch_build.py": HOOK.format("")}, CUDA, {"DEMO_CUDA": "1"}, id="a-hook-is-told"),
        pytest.param(HATCH, {"demo/ops.py": "from torch.utils.cpp_extension import load\n"}, CUDA, {},
                     id="data-for-a-compiler-at-run-time"),
        pytest.param(CORE, {"CMakeLists.txt": "", "k.cu": "", "a.cpp": ""}, XPU, {}, id="no-code-of-this-accelerator"),
    ],
)  # fmt: skip
def test_what_is_on_or_needs_no_compiler_is_not_missed(
    tmp_path: Path, backend: str, files: dict[str, str], kind: AcceleratorKind, env: dict[str, str]
) -> None:
    assert warnings(tmp_path, backend, dict(files), kind, **env) == []


def test_kernels_of_tests_and_of_other_projects_are_not_the_source_s_own(tmp_path: Path) -> None:
    theirs = ("tests/a.cu", "third_party/cutlass/b.cu", "csrc/Examples/c.cu", "f/f.cu", "f/setup.py")
    files = dict.fromkeys((*theirs, "csrc/d.cu", "e.cuh"), "")
    sycl = {"f.cpp": "#include <sycl/sycl.hpp>\n", "g.cpp": "", "h.sycl": ""}
    tree = opened(tmp_path, {"pyproject.toml": pyproject(CORE), **files, **sycl}).tree
    assert [list_device_sources(tree, kind, ".") for kind in (CUDA, XPU)] == [("csrc/d.cu",), ("f.cpp", "h.sycl")]
