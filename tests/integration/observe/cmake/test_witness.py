"""What cmake's configure step shows of a project, and what remains a doubt: real steps of the pinned cmake."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.machine.context import Outside
from ci_tools.model.evidence import Binding, CellEvidence, PlatformEvidence
from ci_tools.observe.cmake import run
from tests.builders.sources import SCIKIT, evidence_of, lend_tools, users_world, world, write

pytestmark = pytest.mark.slow  # real processes

CONFIG = """\
package: demo
python: ["3.12"]
torch: ["2.12"]
platforms:
  linux-cuda: {owner: "@demo/cuda", cuda: ["13.0"], archs: ["9.0"]}
  linux-cpu: {owner: "@demo/cpu"}
  macos-arm64: {owner: "@demo/macos"}
  windows: {owner: "@demo/windows"}
"""
PROJECT = SCIKIT.replace('core"]', 'core", "torch"]')
HEAD = """\
cmake_minimum_required(VERSION 3.26)
project(demo LANGUAGES CXX)
find_package(Python COMPONENTS Interpreter Development.Module)
Python_add_library(_core MODULE core.cpp)
install(TARGETS _core DESTINATION demo)
"""
FILES = {"fatwheel.yml": CONFIG, "pyproject.toml": PROJECT, "core.cpp": "", "op.cpp": "#include <torch/torch.h>\n"}
WITH_TORCH = """\
  find_package(Torch REQUIRED)
  add_library(op SHARED op.cpp)
  target_link_libraries(op PRIVATE ${TORCH_LIBRARIES})
"""


ONE_CELL = """\
package: demo
python: ["3.12"]
torch: ["2.12"]
platforms: {linux-cpu: {owner: "@demo/cpu"}}
"""


def shown(folder: Path, lines: str, **files: str) -> dict[str, PlatformEvidence]:
    """Return the evidence of a project whose CMakeLists.txt ends with these lines, by platform."""
    made = {name.replace("_", "."): text for name, text in files.items()}
    root = write(folder / "a", {**FILES, "CMakeLists.txt": HEAD + lines, **made})
    return {str(one.platform): one for one in evidence_of(root, users_world()).platforms}


def bindings(found: PlatformEvidence) -> set[Binding]:
    """Return how a platform's cells are bound to torch."""
    return {one.torch_abi.kind for one in (found.shown, *found.apart.values())}


def first(folder: Path, lines: str, **files: str) -> CellEvidence:
    """Return the evidence of such a project for one cell."""
    return shown(folder, lines, fatwheel_yml=ONE_CELL, **files)["linux-cpu"].shown


def test_a_source_that_no_target_compiles_binds_no_wheel_to_torch(tmp_path: Path) -> None:
    found = shown(tmp_path, "")
    assert {name: bindings(one) for name, one in found.items()} == {name: {Binding.NONE} for name in found}
    library = found["linux-cpu"].shown.built[0]
    assert (library.member, [one.source for one in library.compiles]) == ("_core.so", ["core.cpp"])


# What a target waits for, and the platforms that meet it.
CONDITIONS = {
    "the_system": ("WIN32", {"windows"}),
    "the_processor": ('CMAKE_SYSTEM_PROCESSOR STREQUAL "arm64"', {"macos-arm64"}),
    "the_compiler": ("MSVC OR APPLE", {"windows", "macos-arm64"}),
    "a_variable_of_the_job": ("DEFINED ENV{CUDA_HOME}", {"linux-cuda"}),
    "none": ("TRUE", {"linux-cuda", "linux-cpu", "macos-arm64", "windows"}),
}


def test_a_target_behind_a_condition_is_of_the_platforms_that_meet_it(tmp_path: Path) -> None:
    targets = (f"if({condition})\n  add_library({name} SHARED op.cpp)\nendif()\n"
               for name, (condition, _) in CONDITIONS.items())  # fmt: skip
    found = shown(tmp_path, "".join(targets))
    made = {name: {one.member.rpartition(".")[0].removeprefix("lib") for one in each.shown.built}
            for name, each in found.items()}  # fmt: skip
    assert {name: {which for which, targets in made.items() if name in targets} for name in CONDITIONS} == {
        name: platforms for name, (_, platforms) in CONDITIONS.items()
    }
    assert not any(one.shown.warnings for one in found.values())


def test_a_target_behind_a_condition_binds_the_platforms_that_meet_it(tmp_path: Path) -> None:
    found = shown(tmp_path, f"if(MSVC OR APPLE)\n{WITH_TORCH}endif()\n")
    assert {name for name, one in found.items() if Binding.FULL in bindings(one)} == {"windows", "macos-arm64"}
    assert not any(one.shown.warnings for one in found.values())


def test_a_target_for_an_older_torch_binds_only_the_cells_of_that(tmp_path: Path) -> None:
    lines = f"find_package(Torch REQUIRED)\nif(Torch_VERSION VERSION_LESS 2.11)\n{WITH_TORCH}endif()\n"
    both = ONE_CELL.replace('"2.12"', '"2.10", "2.12"')
    found = shown(tmp_path, lines, fatwheel_yml=both)["linux-cpu"]
    every = {found.shown.torch_abi.kind, *(one.torch_abi.kind for one in found.apart.values())}
    assert every == {Binding.FULL, Binding.NONE}


def test_cuda_is_a_language_of_the_platform_that_has_it(tmp_path: Path) -> None:
    lines = (
        "include(CheckLanguage)\ncheck_language(CUDA)\nif(CMAKE_CUDA_COMPILER)\n"
        "  enable_language(CUDA)\n  find_package(CUDAToolkit REQUIRED)\n"
        "  add_library(k SHARED k.cu)\n  target_link_libraries(k CUDA::cudart)\nendif()\n"
    )
    two = "".join(line for line in CONFIG.splitlines(keepends=True) if "macos" not in line and "windows" not in line)
    found = shown(tmp_path, lines, k_cu="", fatwheel_yml=two)
    libraries = {name: [one.member for one in each.shown.built] for name, each in found.items()}
    assert libraries["linux-cuda"] == ["_core.so", "libk.so"]
    assert libraries["linux-cpu"] == ["_core.so"]


FIND_CUDA = """\
find_package(CUDA)
if(CUDA_FOUND)
  list(APPEND CUDA_NVCC_FLAGS -gencode arch=compute_90,code=sm_90)
  cuda_add_library(k SHARED k.cu OPTIONS --use_fast_math)
  target_link_libraries(k ${CUDA_LIBRARIES} ${CUDA_TOOLKIT_ROOT_DIR}/lib64/libcudart.so)
endif()
"""


def test_the_older_module_for_cuda_is_of_the_platform_that_has_it(tmp_path: Path) -> None:
    found = {name: each.shown for name, each in shown(tmp_path, FIND_CUDA, k_cu="").items()}
    (library,) = (one for one in found["linux-cuda"].built if one.member == "libk.so")
    assert [one.source for one in library.compiles] == ["k.cu"]
    assert {"arch=compute_90,code=sm_90", "--use_fast_math"} <= {*library.compiles[0].flags}
    assert [one.member for one in found["linux-cpu"].built] == ["_core.so"]
    assert not any(one.warnings for name, one in found.items() if name != "linux-cuda")


def test_a_project_whose_policy_has_no_such_module_compiles_nothing_by_it(tmp_path: Path) -> None:
    new = (HEAD + FIND_CUDA).replace("3.26", "3.27")
    files = {**FILES, "CMakeLists.txt": new, "k.cu": ""}
    found = evidence_of(write(tmp_path / "a", files), world(tmp_path)).platforms
    assert [one.member for one in found[0].shown.built if one.member != "_core.so"] == []


# Ways to the library that torch's own CMake files have no target for.
OF_TORCH = {
    "its-prefix": 'PATHS "${TORCH_INSTALL_PREFIX}/lib"',
    "its-prefix-without-a-word": 'PATH "${TORCH_INSTALL_PREFIX}/lib"',
    "its-cmake-files": 'HINTS "${Torch_DIR}/../../../lib"',
}


@pytest.mark.parametrize("where", [pytest.param(text, id=name) for name, text in OF_TORCH.items()])
def test_a_library_of_torch_is_found_by_its_name_on_every_system(where: str, tmp_path: Path) -> None:
    lines = f"find_package(Torch REQUIRED)\nfind_library(TORCH_PYTHON_LIBRARY torch_python {where})\n"
    found = shown(tmp_path, f"{lines}target_link_libraries(_core PRIVATE ${{TORCH_PYTHON_LIBRARY}})\n")
    assert {one.shown.torch_abi.kind for one in found.values()} == {Binding.UNKNOWN}
    assert [one.shown.warnings for one in found.values()] == [()] * len(found)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("include(CheckCXXCompilerFlag)\ncheck_cxx_compiler_flag(-mavx2 HAS_AVX2)\n"
                     "if(HAS_AVX2)\n  target_compile_options(_core PRIVATE -mavx2)\nendif()\n", id="a-flag"),
        pytest.param("find_package(Threads REQUIRED)\ntarget_link_libraries(_core PRIVATE Threads::Threads)\n",
                     id="threads"),
        pytest.param("find_package(OpenMP)\nif(OpenMP_CXX_FOUND)\n"
                     "  target_link_libraries(_core PRIVATE OpenMP::OpenMP_CXX)\nendif()\n", id="openmp"),
        pytest.param("find_program(CCACHE ccache)\nexecute_process(COMMAND git describe OUTPUT_VARIABLE v)\n",
                     id="tools"),
        pytest.param("include(ProcessorCount)\nProcessorCount(n)\nexecute_process(COMMAND nproc OUTPUT_VARIABLE m)\n"
                     "cmake_host_system_information(RESULT k QUERY NUMBER_OF_LOGICAL_CORES TOTAL_PHYSICAL_MEMORY)\n",
                     id="sizes-of-the-machine"),
        pytest.param("".join(f"find_package({name})\nif({name}_FOUND)\n{WITH_TORCH}endif()\n"
                             for name in ("CUDA", "CUDAToolkit", "hip", "IntelSYCL")), id="accelerators-elsewhere"),
        pytest.param("file(GLOB more ./a/b/c/*.cpp)\n", id="a-relative-path"),
        pytest.param("set(python ${Python_EXECUTABLE})\n" + "".join(
            f'execute_process(COMMAND ${{python}} -c "{program}" OUTPUT_VARIABLE said RESULT_VARIABLE status)\n'
            f'if(NOT status EQUAL 0 OR NOT said MATCHES "{answer}")\n  message(FATAL_ERROR "${{said}}")\nendif()\n'
            for program, answer in (
                ("import sysconfig; print(sysconfig.get_paths()['include'])", "/python$"),
                ("import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'), end='')", "^.cpython-fatwheel.so$"),
                ("import numpy; print(numpy.get_include())", "/numpy$"),
                ("import torch; print(torch.__path__[0],end='');", "/torch$"),
                ("import torch; print(torch._C._GLIBCXX_USE_CXX11_ABI)", "^True$"),
                ("import torch; print(torch.version.cuda)", "^None$"),
            )), id="what-python-prints"),
    ],
)  # fmt: skip
def test_a_check_that_decides_nothing_is_no_doubt(lines: str, tmp_path: Path) -> None:
    found = first(tmp_path, lines)
    assert (found.torch_abi.kind, found.warnings) == (Binding.NONE, ())


MANY = "include(CheckCXXCompilerFlag)\n" + "".join(f"check_cxx_compiler_flag(-f{n} HAS_{n})\n" for n in range(6))


@pytest.mark.parametrize(
    ("condition", "binding"),
    [
        pytest.param("FALSE", Binding.NONE, id="none"),
        pytest.param("NOT HAS_3", Binding.FULL, id="one-that-says-no"),
        pytest.param("NOT (HAS_0 OR HAS_1 OR HAS_2 OR HAS_3 OR HAS_4 OR HAS_5)", Binding.FULL, id="all-that-say-no"),
        pytest.param("HAS_2 AND NOT HAS_1 AND NOT HAS_4", Binding.FULL, id="one-beside-two-others"),
    ],
)
def test_too_many_checks_for_every_way_are_tried_one_by_one(condition: str, binding: Binding, tmp_path: Path) -> None:
    found = first(tmp_path, f"{MANY}if({condition})\n{WITH_TORCH}endif()\n")
    assert (found.torch_abi.kind, len(found.warnings)) == (binding, int(binding is Binding.FULL))


@pytest.mark.parametrize(
    ("lines", "doubt"),
    [
        pytest.param("include(CheckIncludeFileCXX)\ncheck_include_file_cxx(x.h HAS_X)\n"
                     f"if(HAS_X)\n{WITH_TORCH}endif()\n",
                     "CMakeLists.txt:7: what cmake compiles may depend on the check HAS_X", id="a-check"),
        pytest.param(f"execute_process(COMMAND nproc OUTPUT_VARIABLE n)\nif(n GREATER 8)\n{WITH_TORCH}endif()\n",
                     "CMakeLists.txt:6: what cmake compiles may depend on the check nproc", id="a-size-that-decides"),
        pytest.param("find_library(MKL mkl)\n",
                     "CMakeLists.txt:6: what cmake compiles may depend on whether it finds MKL", id="a-library"),
        pytest.param("find_package(PkgConfig)\npkg_check_modules(FFI libffi)\n",
                     "CMakeLists.txt:6: what cmake compiles may depend on whether it finds PKG_CONFIG_EXECUTABLE",
                     id="a-library-of-pkg-config"),
        pytest.param("find_program(GEN gen NO_CMAKE_FIND_ROOT_PATH)\n",
                     "CMakeLists.txt:6: cmake's configure step searches for GEN in a way", id="a-search-elsewhere"),
        pytest.param("find_package(Torch REQUIRED)\nif(USE_ROCM)\nendif()\n",
                     "CMakeLists.txt:7: cmake's configure step reads USE_ROCM", id="a-variable-of-torch-s"),
        pytest.param("find_package(Eigen3)\n",
                     "CMakeLists.txt:6: what cmake compiles may depend on whether it finds Eigen3", id="a-package"),
        pytest.param("execute_process(COMMAND uptime OUTPUT_VARIABLE n)\n",
                     "CMakeLists.txt:6: cmake's configure step runs uptime", id="a-program"),
        pytest.param('execute_process(COMMAND python -c "print(1); print(2)" OUTPUT_VARIABLE n)\n',
                     "CMakeLists.txt:6: cmake's configure step runs python", id="a-program-of-python"),
        pytest.param("if(EXISTS /opt/vendor/sdk)\nendif()\n",
                     "CMakeLists.txt:6: cmake's configure step looks at /opt/vendor/sdk", id="a-place-of-the-machine"),
        pytest.param("cmake_host_system_information(RESULT n QUERY HOSTNAME)\n",
                     "CMakeLists.txt:6: cmake's configure step asks for a property of its machine", id="the-machine"),
        pytest.param("include(FetchContent)\nFetchContent_Declare(fmt URL https://127.0.0.1:9/fmt.zip)\n"
                     "FetchContent_MakeAvailable(fmt)\n",
                     "CMakeLists.txt:8: cmake's configure step fetches fmt from the network", id="the-network"),
        pytest.param('message(FATAL_ERROR "no such luck")\n',
                     "CMakeLists.txt:6: cmake's configure step fails: no such luck", id="an-error"),
        pytest.param("include(NoSuchModule)\n", "CMakeLists.txt:6: cmake's configure step fails: include could not "
                     "find requested file: NoSuchModule", id="an-error-whose-name-stands-apart"),
        pytest.param("add_library(other MODULE pyproject.toml)\n", "CMakeLists.txt:6: cmake's configure step fails: "
                     "CMake can not determine linker language for target: other", id="an-error-of-one-line"),
        pytest.param("add_custom_command(OUTPUT made.cpp COMMAND gen)\ntarget_sources(_core PRIVATE made.cpp)\n",
                     "cmake compiles ../build/made.cpp, which is not in the source", id="a-generated-source"),
    ],
)  # fmt: skip
def test_what_no_cell_decides_is_a_doubt_that_names_its_line(lines: str, doubt: str, tmp_path: Path) -> None:
    found = first(tmp_path, lines)
    assert found.torch_abi.kind is Binding.FULL
    assert [one for one in found.warnings if one.startswith(doubt)] != []


def test_a_library_that_links_torch_without_a_header_of_it_is_not_free_of_it(tmp_path: Path) -> None:
    lines = "find_package(Torch REQUIRED)\ntarget_link_libraries(_core PRIVATE ${TORCH_LIBRARIES})\n"
    assert first(tmp_path, lines).torch_abi.kind is Binding.UNKNOWN
    by_name = "target_link_libraries(_core PRIVATE -ltorch_cpu)\n"
    assert first(tmp_path / "by-name", by_name).torch_abi.kind is Binding.UNKNOWN


def test_files_are_named_from_the_root_where_cmake_starts_below_it(tmp_path: Path) -> None:
    project = f'{PROJECT}[tool.scikit-build.cmake]\nsource-dir = "native"\n'
    lists = HEAD.replace("core.cpp", "core.cpp ../other.cpp")
    files = {"native/CMakeLists.txt": lists, "native/core.cpp": "", "other.cpp": ""}
    write(tmp_path / "a", files)
    found = first(tmp_path, "", pyproject_toml=project)
    assert (found.torch_abi.kind, found.warnings) == (Binding.NONE, ())
    assert [one.source for one in found.built[0].compiles] == ["native/core.cpp", "other.cpp"]


def test_definitions_of_the_config_reach_cmake(tmp_path: Path) -> None:
    project = f'{PROJECT}[tool.scikit-build.cmake.define]\nWITH_OP = {{env = "WITH_OP", default = "ON"}}\n'
    lines = f"if(WITH_OP)\n{WITH_TORCH}endif()\n"
    assert first(tmp_path, lines, pyproject_toml=project).torch_abi.kind is Binding.FULL
    off = project.replace('"ON"', '"OFF"')
    assert first(tmp_path / "off", lines, pyproject_toml=off).torch_abi.kind is Binding.NONE


READS = """\
file(READ notes.txt text)
if(text MATCHES "with torch")
%sendif()
"""


@pytest.mark.parametrize(
    ("lines", "edited", "again"),
    [
        pytest.param("", "core.cpp", False, id="a-source"),
        pytest.param("", "fatwheel.yml", False, id="the-config"),
        pytest.param('file(GLOB found "*.txt")\n', "notes.txt", False, id="a-file-that-is-listed"),
        pytest.param("file(READ notes.txt text)\n", "notes.txt", True, id="a-file-that-is-read"),
        pytest.param('include(CMakePackageConfigHelpers)\nconfigure_package_config_file("notes.txt" '
                     '"${CMAKE_BINARY_DIR}/c.cmake" INSTALL_DESTINATION demo)\n', "notes.txt", True,
                     id="a-template-of-one-of-cmake-s-own-modules"),
        pytest.param("include(more.cmake)\n", "more.cmake", True, id="a-script"),
        pytest.param("", "CMakeLists.txt", True, id="the-first-script"),
    ],
)  # fmt: skip
def test_only_what_cmake_read_is_a_reason_to_configure_again(
    lines: str,
    edited: str,
    again: bool,  # noqa: FBT001 - a table of three
    tmp_path: Path,
) -> None:
    files = {**FILES, "fatwheel.yml": ONE_CELL, "CMakeLists.txt": HEAD + lines, "notes.txt": "", "more.cmake": ""}
    root = write(tmp_path / "a", files)
    lend_tools(tmp_path)
    outside = world(tmp_path)
    evidence_of(root, outside)
    before = runs_of(outside)
    (root / edited).write_text(f"{files[edited]}\n# edited\n", encoding="utf-8")
    evidence_of(root, outside)
    assert before
    assert (runs_of(outside) != before) is again


def test_a_file_that_cmake_reads_decides_anew(tmp_path: Path) -> None:
    lines = READS % WITH_TORCH
    assert first(tmp_path, lines, notes_txt="none").torch_abi.kind is Binding.NONE
    assert first(tmp_path, lines, notes_txt="with torch").torch_abi.kind is Binding.FULL


def runs_of(outside: Outside) -> dict[str, int]:
    """Return when each kept result of a configure step was written, in nanoseconds."""
    return {path.name: path.stat().st_mtime_ns for path in (outside.cache / "configured").iterdir()}


def test_a_limit_that_one_plan_ran_into_is_forgotten_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write(tmp_path / "a", {**FILES, "fatwheel.yml": ONE_CELL, "CMakeLists.txt": HEAD})
    lend_tools(tmp_path)
    outside = world(tmp_path)
    with monkeypatch.context() as busy:
        busy.setattr(run, "LIMITS", run.LIMITS._replace(written=1 << 10))
        limited = evidence_of(root, outside).platforms[0].shown
    said = "cmake's configure step wrote over 0 GiB: every file of the source counts as compiled"
    assert (limited.warnings, limited.torch_abi.kind) == ((said,), Binding.FULL)
    assert evidence_of(root, outside).platforms[0].shown.torch_abi.kind is Binding.NONE
