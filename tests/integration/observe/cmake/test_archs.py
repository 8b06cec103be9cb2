"""For which GPUs a CMake project compiles: what the plan says is what cmake does, real steps of the pinned cmake."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.catalog import Catalog
from ci_tools.catalog.accelerators.cuda import CUDA
from ci_tools.config.release_names import label_archs
from ci_tools.model.evidence import Binding, CellEvidence
from ci_tools.model.plan import Plan
from ci_tools.model.platforms import Accelerator
from ci_tools.model.versions import Minor
from ci_tools.observe import collector
from ci_tools.plan import make
from ci_tools.source import files as source
from tests.builders.sources import SCIKIT, request_of, users_world, write

pytestmark = pytest.mark.slow  # real processes

CONFIG = """\
package: demo
python: ["3.12"]
torch: ["2.12"]
release: {local: "cu{cuda}{archs}torch{torch}"}
platforms:
  linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0a", "10.0+PTX"], ENV}
"""
HEAD = "cmake_minimum_required(VERSION 3.26)\nproject(demo LANGUAGES CXX)\nENABLE\n"
ENABLED = "enable_language(CUDA)"
TAIL = """
find_package(Python COMPONENTS Interpreter Development.Module)
Python_add_library(_core MODULE core.cpp k.cu)
install(TARGETS _core DESTINATION demo)
"""
FILES = {"pyproject.toml": SCIKIT, "core.cpp": "", "k.cu": "", "k2.cu": "", "op.cpp": "#include <torch/torch.h>\n"}


def project(folder: Path, lines: str, env: str = "", tail: str = TAIL) -> Path:
    """Return the folder of a project whose CMakeLists.txt has these lines from its third on."""
    lists = HEAD.replace("ENABLE", lines) + tail
    return write(folder / "a", {**FILES, "fatwheel.yml": CONFIG.replace("ENV", env), "CMakeLists.txt": lists})


def planned(folder: Path, lines: str, env: str = "", tail: str = TAIL) -> Plan:
    """Return the plan of such a project."""
    return make.make_plan(project(folder, lines, env, tail) / "fatwheel.yml", users_world()).plan


ASKED = ("9.0a", "10.0+PTX")
TOLD = "-DCMAKE_CUDA_ARCHITECTURES=90a-real;100"


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(ENABLED, id="nvccs-own"),
        pytest.param(f"set(CMAKE_CUDA_ARCHITECTURES 80 CACHE STRING x)\n{ENABLED}", id="a-cache-entry"),
        pytest.param("if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)\n  set(CMAKE_CUDA_ARCHITECTURES 80)\nendif()\n"
                     f"{ENABLED}", id="a-default"),
        pytest.param(f'if(NOT CMAKE_CUDA_ARCHITECTURES)\n  message(FATAL_ERROR "no archs")\nendif()\n{ENABLED}',
                     id="no-default"),
    ],
)  # fmt: skip
def test_cmake_is_told_the_architectures_where_it_heeds_them(lines: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, lines)
    (job,) = plan.jobs
    assert (job.archs, dict(job.env)) == (ASKED, {"CMAKE_ARGS": TOLD})
    assert not [one for one in plan.warnings if "CMakeLists" in one or "architecture" in one]
    assert f"built with CMAKE_ARGS={TOLD}" in plan.covered[0].reason


@pytest.mark.parametrize(
    ("env", "value"),
    [
        pytest.param('env: {CMAKE_ARGS: "-DX=1"}', f"-DX=1 {TOLD}", id="beside-the-configs-arguments"),
        pytest.param('env: {CMAKE_ARGS: "-DCMAKE_CUDA_ARCHITECTURES=90a-real;100"}', TOLD, id="as-the-config-says"),
    ],
)
def test_the_configs_own_arguments_stay(env: str, value: str, tmp_path: Path) -> None:
    (job,) = planned(tmp_path, ENABLED, env).jobs
    assert (job.archs, dict(job.env)) == (ASKED, {"CMAKE_ARGS": value})


def test_cuda_13_drops_what_nvcc_12_compiles_for_by_default(tmp_path: Path) -> None:
    lines = f"unset(CMAKE_CUDA_ARCHITECTURES CACHE)\n{ENABLED}"
    assert planned(tmp_path, lines).jobs[0].archs == ("7.5+PTX",)
    older = project(tmp_path / "b", lines)
    write(older, {"fatwheel.yml": CONFIG.replace("ENV", "").replace("13.0", "12.9")})
    assert make.make_plan(older / "fatwheel.yml", users_world()).plan.jobs[0].archs == ("5.2+PTX",)


@pytest.mark.parametrize(
    ("lines", "tail", "archs", "line"),
    [
        pytest.param(f"set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)\n{ENABLED}", TAIL, ("8.0+PTX", "9.0a"), 3,
                     id="a-list"),
        pytest.param(f"{ENABLED}\nset(CMAKE_CUDA_ARCHITECTURES 80-real)", TAIL, ("8.0",), 4, id="after-the-language"),
        pytest.param(ENABLED, f"{TAIL}set_target_properties(_core PROPERTIES CUDA_ARCHITECTURES 80)\n", ("8.0+PTX",), 8,
                     id="a-property"),
        pytest.param(f"set(CMAKE_CUDA_ARCHITECTURES 70 CACHE STRING x FORCE)\n{ENABLED}", TAIL, ("7.0+PTX",), 3,
                     id="a-forced-cache-entry"),
    ],
)  # fmt: skip
def test_what_cmake_does_not_heed_is_what_the_wheel_is_for(
    lines: str, tail: str, archs: tuple[str, ...], line: int, tmp_path: Path
) -> None:
    plan = planned(tmp_path, lines, tail=tail)
    (job,) = plan.jobs
    assert (job.archs, dict(job.env)) == (archs, {"TORCH_CUDA_ARCH_LIST": "9.0a;10.0+PTX"})
    assert job.local.startswith(f"cu130{label_archs(archs)}torch2.12")
    said = f"CMakeLists.txt:{line}: its wheels are for {' '.join(archs)}, and not for 9.0a 10.0+PTX of the request"
    assert f"linux-cuda: {said}" in plan.warnings
    assert f"one fatbinary for {' '.join(archs)}" in plan.covered[0].reason


@pytest.mark.parametrize(
    ("lines", "tail", "said"),
    [
        pytest.param(f"set(CMAKE_CUDA_ARCHITECTURES 80)\n{ENABLED}",
                     f"{TAIL}add_library(b SHARED k2.cu)\nset_target_properties(b PROPERTIES CUDA_ARCHITECTURES 90)\n",
                     "CMakeLists.txt:10: it compiles for its own architectures, ", id="of-each-target"),
        pytest.param(f"set(CMAKE_CUDA_ARCHITECTURES 80-virtual)\n{ENABLED}", TAIL,
                     "CMakeLists.txt:3: its kernels are compiled for compute_80, which no request can name", id="ptx"),
        pytest.param(f"set(CMAKE_CUDA_ARCHITECTURES OFF)\n{ENABLED}", TAIL,
                     "CMakeLists.txt:3: it compiles for its own architectures, those that its compiler chooses",
                     id="the-compilers"),
    ],
)  # fmt: skip
def test_architectures_that_no_label_can_say_are_a_warning(lines: str, tail: str, said: str, tmp_path: Path) -> None:
    plan = planned(tmp_path, lines, tail=tail)
    assert [one for one in plan.warnings if one.startswith(f"linux-cuda: {said}")], plan.warnings


def test_torchs_own_flags_are_those_of_the_request(tmp_path: Path) -> None:
    lines = f"{ENABLED}\nfind_package(Torch REQUIRED)"
    plan = planned(tmp_path, lines)
    assert [one for one in plan.warnings if "architectures" in one or " are for " in one] == []
    assert (plan.jobs[0].archs, plan.jobs[0].env) == (ASKED, ())


def test_a_check_that_decides_leaves_the_files_warning(tmp_path: Path) -> None:
    lines = f"set(CMAKE_CUDA_ARCHITECTURES 80)\n{ENABLED}\nexecute_process(COMMAND uptime OUTPUT_VARIABLE n)"
    warnings = planned(tmp_path, lines).warnings
    assert "linux-cuda: CMakeLists.txt:3: its build is for 80, whatever the request says" in warnings
    assert [one for one in warnings if "CMakeLists.txt:5: cmake's configure step runs uptime" in one]


# ---------------------------------------------------------------- a cell that stands for several versions of torch


@functools.cache
def two_toolkits() -> Catalog:
    """Return the catalog without the builds of torch 2.12 for CUDA 12.9 and 13.2: two show as much as four."""
    known = catalog.load()
    version = Minor(2, 12)
    builds = {
        key: versions & {None, Minor(12, 6), Minor(13, 0)}
        for key, versions in known.torch[version].accelerators.items()
    }
    return replace(known, torch={**known.torch, version: known.torch[version]._replace(accelerators=builds)})


def shown_for_all(folder: Path, lines: str, tail: str = TAIL) -> CellEvidence:
    """Return the evidence of a cell of CUDA whose version nobody names: it stands for every build of its torch."""
    root = project(folder, lines, tail=tail)
    request = request_of(root)
    platform = replace(request.platforms[0], accelerators=(Accelerator(CUDA),))
    asked = replace(request, platforms=(platform,))
    tree = source.open_tree(asked, root, users_world())
    return collector.gather(asked, tree, two_toolkits(), users_world()).platforms[0].shown


OP = "\n  add_library(op SHARED op.cpp)\nendif()\n"


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("CUDAToolkit_VERSION VERSION_LESS 13", id="the-toolkit"),
        pytest.param("CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13", id="the-compiler"),
        pytest.param("Torch_VERSION MATCHES cu130", id="torch"),
    ],
)
def test_targets_that_differ_between_its_torches_are_a_warning_that_names_them(condition: str, tmp_path: Path) -> None:
    tail = f"{TAIL}find_package(Torch)\nif({condition}){OP}"
    found = shown_for_all(tmp_path, ENABLED, tail)
    (said,) = (one for one in found.warnings if "stands for" in one)
    assert said.startswith("CMakeLists.txt:9: cmake makes different targets (op) for torch 2.12.1+cu126 and 2.12.1+cu")
    assert "and linux-cuda / cuda / torch2.12 / cp312 stands for both: every file of the source counts" in said
    assert found.torch_abi.kind is Binding.FULL


def test_targets_that_are_the_same_for_its_torches_are_evidence(tmp_path: Path) -> None:
    found = shown_for_all(tmp_path, ENABLED)
    assert ([one for one in found.warnings if "stands for" in one], found.torch_abi.kind) == ([], Binding.NONE)
