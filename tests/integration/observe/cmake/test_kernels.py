"""Wheels of CMake projects that would lack their kernels: refused, with the condition's line; real steps of cmake."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.config import starter
from ci_tools.errors import InputError
from ci_tools.plan import make
from ci_tools.plan.make import Planned
from tests.builders.sources import SCIKIT, users_world, write

pytestmark = pytest.mark.slow  # real processes

CONFIG = """\
package: demo
python: ["3.12"]
torch: ["2.10"]
platforms:
  linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0"], MORE}
  linux-cpu: {owner: "@demo/cpu"}
"""
HEAD = "cmake_minimum_required(VERSION 3.26)\nproject(demo LANGUAGES CXX)\n"
CORE = "add_library(core SHARED core.cpp)\n"
ON = "  enable_language(CUDA)\n  target_sources(core PRIVATE k/a.cu)\nendif()\n"
OPTION = f'option(USE_CUDA "" OFF)\n{CORE}if(USE_CUDA)\n{ON}'
FILES = {"pyproject.toml": SCIKIT, "core.cpp": "", "k/a.cu": "", "k/b.cu": ""}


def planned(folder: Path, lines: str, more: str = "", **files: str) -> Planned:
    """Return the plan of a project whose CMakeLists.txt has these lines from its third on."""
    made = {"fatwheel.yml": CONFIG.replace(", MORE", f", {more}" if more else ""), "CMakeLists.txt": HEAD + lines}
    root = write(folder / "a", {**FILES, **made, **{name.replace("__", "."): text for name, text in files.items()}})
    return make.make_plan(root / "fatwheel.yml", users_world())


LACKS = "k/a.cu is compiled only with {}, which no cell sets, so every wheel of linux-cuda would lack it"


@pytest.mark.parametrize(
    ("lines", "more", "where", "switch"),
    [
        pytest.param(OPTION, "", "CMakeLists.txt:5", "CMAKE_ARGS=-DUSE_CUDA=ON", id="an-option"),
        pytest.param(f"{CORE}if(WITH_GPU)\n{ON}", "", "CMakeLists.txt:4", "CMAKE_ARGS=-DWITH_GPU=ON",
                     id="nobody-declares-it"),
        pytest.param(f'option(USE_CUDA "" OFF)\n{CORE}if(${{USE_CUDA}})\n{ON}', 'env: {CMAKE_ARGS: "-DX=1"}',
                     "CMakeLists.txt:5", "CMAKE_ARGS=-DX=1 -DUSE_CUDA=ON", id="beside-the-configs-arguments"),
        pytest.param(f'set(DEVICE cpu CACHE STRING "")\n{CORE}if("${{DEVICE}}" STREQUAL "cuda")\n{ON}', "",
                     "CMakeLists.txt:5", "CMAKE_ARGS=-DDEVICE=cuda", id="a-choice"),
        pytest.param(f"{CORE}if(DEFINED ENV{{DEMO_CUDA}})\n{ON}", "", "CMakeLists.txt:4", "DEMO_CUDA=1",
                     id="a-variable-of-the-environment"),
        pytest.param(f'option(USE_CUDA "" OFF)\n{CORE}if(USE_CUDA)\n  enable_language(CUDA)\n'
                     "  find_package(NCCL REQUIRED)\n  target_sources(core PRIVATE k/a.cu)\nendif()\n", "",
                     "CMakeLists.txt:5", "CMAKE_ARGS=-DUSE_CUDA=ON", id="with-it-on-a-package-is-missing"),
        pytest.param(f"find_package(Backtrace)\n{OPTION}", "", "CMakeLists.txt:6", "CMAKE_ARGS=-DUSE_CUDA=ON",
                     id="a-doubt-about-something-else"),
    ],
)  # fmt: skip
def test_kernels_behind_an_option_that_no_cell_sets_end_the_plan(
    lines: str, more: str, where: str, switch: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        planned(tmp_path, lines, ", ".join(filter(None, ("required: true", more))))
    assert caught.value.message == f"{where}: {LACKS.format(switch)}"
    name, _, value = switch.partition("=")
    assert f'`linux-cuda: {{env: {{{name}: "{value}"}}}}`' in caught.value.hint
    assert '`native: {exclude: ["*.cu"], …}`' in caught.value.hint


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        pytest.param(OPTION, 'env: {CMAKE_ARGS: "-DUSE_CUDA=ON"}', id="the-config-sets-it"),
        pytest.param(OPTION, 'native: {include: ["*.cpp"], exclude: ["*.cu"]}', id="the-config-excludes-them"),
        pytest.param(OPTION.replace("OFF", "ON"), "", id="it-is-on"),
        pytest.param(f"include(CheckLanguage)\ncheck_language(CUDA)\n{CORE}if(CMAKE_CUDA_COMPILER)\n{ON}", "",
                     id="cmake-finds-cuda"),
        pytest.param(f"{CORE}enable_language(CUDA)\nif(CUSTOM)\nendif()\nadd_custom_command(OUTPUT a.fatbin COMMAND "
                     "${CMAKE_CUDA_COMPILER} -fatbin k/a.cu)\nadd_custom_target(k ALL DEPENDS a.fatbin)\n", "",
                     id="compiled-by-hand"),
    ],
)  # fmt: skip
def test_kernels_that_are_compiled_or_not_wanted_are_not_missed(lines: str, more: str, tmp_path: Path) -> None:
    found = planned(tmp_path, lines, more)
    assert {job.platform for job in found.plan.jobs} == {"linux-cuda", "linux-cpu"}
    assert not [one for one in found.plan.warnings if "kernel" in one or "a.cu" in one]


PLUGIN = SCIKIT.replace("core.build", "core.setuptools.build_meta")
CALL = "from setuptools import setup\nsetup(name='demo', version='1.0', cmake_source_dir='.'{})\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param("", "k/a.cu is compiled only with CMAKE_ARGS=-DUSE_CUDA=ON", id="off"),
        pytest.param(", cmake_args=['-DUSE_CUDA=ON']", "", id="on", marks=pytest.mark.long),
        pytest.param(", cmake_args=list()", "cmake_args is computed: whether k/a.cu is compiled is not known",
                     id="computed", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_what_setuptools_has_cmake_configure_is_followed(arguments: str, said: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, OPTION, pyproject__toml=PLUGIN, setup__py=CALL.format(arguments)).plan
    seen = [one for one in plan.warnings if "k/a.cu" in one]
    assert [said in one for one in seen] == ([True] if said else [])


def test_a_cell_whose_cuda_has_no_kernels_is_skipped_where_another_has_them(tmp_path: Path) -> None:
    lines = f"{CORE}find_package(CUDAToolkit)\nif(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13 OR USE_CUDA)\n{ON}"
    two = CONFIG.replace(", MORE", "").replace('["13.0"]', '["12.9", "13.0"]')
    plan = planned(tmp_path, lines, fatwheel__yml=two).plan
    assert [job.accelerator.label for job in plan.jobs if job.accelerator] == ["cu130"]
    ((cell, reason),) = plan.skipped
    assert "cu129" in str(cell)
    assert (
        "without CMAKE_ARGS=-DUSE_CUDA=ON its build compiles no kernel, k/a.cu for example (CMakeLists.txt:5)" in reason
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param(f"{CORE}if(BUILD_EXTRAS)\n{ON}", "no kernel is compiled, though the source has k/a.cu",
                     id="the-option-is-no-hardware"),
        pytest.param(f'option(USE_CUDA "" OFF)\nset(USE_CUDA OFF)\n{CORE}if(USE_CUDA)\n{ON}',
                     "no kernel is compiled, though the source has k/a.cu; off by default: USE_CUDA (CMakeLists.txt:3; "
                     "turn on with CMAKE_ARGS=-DUSE_CUDA=ON)", id="the-option-changes-nothing"),
        pytest.param(f"{CORE}find_library(CUDA_RT cudart)\nif(CUDA_RT OR USE_CUDA)\n{ON}",
                     "CMakeLists.txt:4: what cmake compiles may depend on whether it finds CUDA_RT: whether k/a.cu is "
                     "compiled is not known; off by default: ", id="a-doubt-about-kernels"),
        pytest.param(f"{OPTION}enable_language(CUDA)\ninclude(FetchContent)\n"
                     "FetchContent_Declare(x URL http://127.0.0.1:9/x)\nFetchContent_MakeAvailable(x)\n",
                     "fetches x from the network: whether k/a.cu is compiled is not known; off by default: USE_CUDA",
                     id="what-is-fetched-may-have-them"),
        pytest.param(f"{OPTION}find_package(Eigen3 REQUIRED)\n", "whether k/a.cu is compiled is not known; "
                     "off by default: USE_CUDA (CMakeLists.txt:3", id="cmake-fails"),
    ],
)  # fmt: skip
def test_what_no_option_brings_in_is_a_warning(lines: str, said: str, tmp_path: Path) -> None:
    found = planned(tmp_path, lines)
    assert [one for one in found.plan.warnings if one.startswith("linux-cuda") and said in one]


def test_a_started_config_leaves_cuda_out_and_says_what_would_bring_it_in(tmp_path: Path) -> None:
    root = write(tmp_path / "a", {**FILES, "CMakeLists.txt": HEAD + OPTION})
    left = {one.platform: one.why for one in starter.write(root, catalog.load(), users_world()).starter.left}
    assert left == {
        "linux-cuda": "no kernel is compiled for it by default; "
        'with `env: {CMAKE_ARGS: "-DUSE_CUDA=ON"}` (CMakeLists.txt:5) some are'
    }


def test_options_of_cuda_are_listed_with_the_evidence(tmp_path: Path) -> None:
    other = "if(DEFINED ENV{CUDAHOSTCXX} OR GPU_GENERATION)\nendif()\n"  # says nothing of what is turned on
    lines = f'{OPTION}option(USE_CUDA_GRAPHS "" OFF)\n{other}'
    found = planned(tmp_path, lines, 'env: {CMAKE_ARGS: "-DUSE_CUDA=ON"}').evidence
    off = {str(one.platform): one.shown.off for one in found.platforms}
    graphs = ("USE_CUDA_GRAPHS", "CMakeLists.txt:9; turn on with CMAKE_ARGS=-DUSE_CUDA_GRAPHS=ON")
    assert off == {"linux-cuda": (graphs,), "linux-cpu": ()}
