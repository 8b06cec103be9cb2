from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.evidence import Binding, Extensions
from ci_tools.model.versions import Minor, Python
from ci_tools.source import backends
from ci_tools.source.backends import CellFacts, Forced, Read
from ci_tools.source.backends.scikit_build_core import states_limit
from tests.unit.source.backends.test_declarative import BINARY, opened, pyproject

NONE, SOME, UNKNOWN = Extensions.NONE, Extensions.SOME, Extensions.UNKNOWN
LINUX = CellFacts("linux", "x86_64", Python.parse("3.12"))
MACOS = CellFacts("macos", "arm64", Python.parse("3.14t"))
WINDOWS = CellFacts("windows", "amd64", Python.parse("3.10"))
ENV = {"FAST": "1", "SLOW": "0"}


def found(folder: Path, settings: str, cell: CellFacts = LINUX, **files: str | bytes) -> Read:
    content = pyproject("scikit_build_core.build", f"[tool.scikit-build]\n{settings}\n")
    named = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    read = backends.read(opened(folder, {"pyproject.toml": content, **named}), ENV, cell)
    assert read is not None
    return read


def unless(condition: str) -> str:
    """Return settings that compile nothing unless a condition holds."""
    return f"wheel.cmake = false\n[[tool.scikit-build.overrides]]\n{condition}\nwheel.cmake = true"


@pytest.mark.parametrize(
    ("settings", "expected", "where"),
    [
        pytest.param("", SOME, "pyproject.toml:1: wheel.cmake = true", id="cmake"),
        pytest.param("wheel.cmake = false", NONE, "pyproject.toml:7: wheel.cmake = false", id="no-cmake"),
        pytest.param("wheel.platlib = false", NONE, "pyproject.toml:7: wheel.platlib = false", id="headers-alone"),
        pytest.param(
            "wheel.cmake = false\nwheel.platlib = true",
            UNKNOWN,
            "pyproject.toml:8: wheel.platlib = true, so",
            id="nothing-compiled-for-one-machine",
        ),
    ],
)
def test_cmake_compiles_unless_it_is_off_or_the_wheel_is_for_any_machine(
    tmp_path: Path, settings: str, expected: Extensions, where: str
) -> None:
    read = found(tmp_path, settings)
    assert (read.extensions, read.where[: len(where)]) == (expected, where)


def test_a_variable_goes_before_the_file(tmp_path: Path) -> None:
    project = opened(tmp_path, {"pyproject.toml": pyproject("scikit_build_core.build")})
    told = {"SKBUILD_WHEEL_CMAKE": "off", "SKBUILD_WHEEL_PY_API": "cp312"}
    read = backends.read(project, told, LINUX)
    assert read is not None
    assert (read.extensions, read.python_api.lowest) == (NONE, Minor(3, 12))


def test_without_cmake_a_compiled_file_in_the_source_counts(tmp_path: Path) -> None:
    assert found(tmp_path, "wheel.cmake = false", demo__kernel_so=BINARY).extensions is UNKNOWN


@pytest.mark.parametrize(
    ("condition", "on_linux", "on_macos", "on_windows"),
    [
        pytest.param('if.platform-system = "^linux"', SOME, NONE, NONE, id="system"),
        pytest.param('if.platform-system = "darwin|win32"', NONE, SOME, SOME, id="two-systems"),
        pytest.param('if.platform-machine = "(?i)amd64|x86_64"', SOME, NONE, SOME, id="machine"),
        pytest.param('if.python-version = ">=3.12"', SOME, SOME, NONE, id="python"),
        pytest.param('if.abi-flags = "t"', NONE, SOME, NONE, id="free-threaded"),
        pytest.param('if.implementation-name = "pypy"', NONE, NONE, NONE, id="implementation"),
        pytest.param('if.state = "^wheel$"', SOME, SOME, SOME, id="state"),
        pytest.param("if.cmake-wheel = true", SOME, SOME, SOME, id="cmake-from-the-index"),
        pytest.param('if = {python-version = ">=3.12", platform-system = "linux"}', SOME, NONE, NONE, id="all-of-two"),
        pytest.param('if.any = {python-version = "<3.11", env.SLOW = false}', SOME, SOME, SOME, id="any-of-two"),
        pytest.param('if.not.platform-system = "linux"', NONE, SOME, SOME, id="negation"),
        pytest.param('if = {env.FAST = true, not.abi-flags = "t"}', SOME, NONE, SOME, id="both-and-negation"),
        pytest.param('if = {system-cmake = ">=3", env.SLOW = true}', NONE, NONE, NONE, id="false-whatever-the-rest-is"),
        pytest.param('if.any = {system-cmake = ">=3", env.FAST = true}', SOME, SOME, SOME, id="true-whatever-the-rest"),
        pytest.param('if.system-cmake = ">=3"', UNKNOWN, UNKNOWN, UNKNOWN, id="what-a-machine-has"),
        pytest.param("if.failed = true", UNKNOWN, UNKNOWN, UNKNOWN, id="after-a-failure"),
        pytest.param("if.from-sdist = true", UNKNOWN, UNKNOWN, UNKNOWN, id="from-an-sdist"),
        pytest.param("if.env.CUDA_HOME = true", UNKNOWN, UNKNOWN, UNKNOWN, id="what-a-job-sets"),
        pytest.param('if.python-version = "?"', UNKNOWN, UNKNOWN, UNKNOWN, id="no-versions"),
        pytest.param('if.platform-machine = "("', UNKNOWN, UNKNOWN, UNKNOWN, id="no-pattern"),
        pytest.param("if.new-condition = true", UNKNOWN, UNKNOWN, UNKNOWN, id="unknown-condition"),
    ],
)
def test_a_condition_is_answered_for_the_cell(
    tmp_path: Path, condition: str, on_linux: Extensions, on_macos: Extensions, on_windows: Extensions
) -> None:
    answers = [found(tmp_path, unless(condition), cell).extensions for cell in (LINUX, MACOS, WINDOWS)]
    assert answers == [on_linux, on_macos, on_windows]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param("", (Binding.FULL, None, None), id="nothing-declared"),
        pytest.param('wheel.py-api = "py3"', (Binding.NONE, None, None), id="no-python"),
        pytest.param('wheel.py-api = "cp310"', (Binding.STABLE, Minor(3, 10), None), id="abi3"),
        pytest.param('wheel.py-api = "cp315t"', (Binding.STABLE, None, Minor(3, 15)), id="abi3t"),
        pytest.param('wheel.py-api = "cp310.cp315t"', (Binding.STABLE, Minor(3, 10), Minor(3, 15)), id="both"),
        pytest.param('wheel.py-api = "abi3"', (Binding.UNKNOWN, None, None), id="misspelt"),
        pytest.param(
            '[[tool.scikit-build.overrides]]\nif.python-version = ">=3.12"\nwheel.py-api = "cp312"',
            (Binding.STABLE, Minor(3, 12), None),
            id="from-a-python-on",
        ),
        pytest.param(
            '[[tool.scikit-build.overrides]]\nif.system-cmake = ">=3"\nwheel.py-api = "cp312"',
            (Binding.UNKNOWN, None, None),
            id="by-the-machine",
        ),
    ],
)
def test_the_python_api_is_the_declared_one(
    tmp_path: Path, settings: str, expected: tuple[Binding, Minor | None, Minor | None]
) -> None:
    api = found(tmp_path, settings).python_api
    assert (api.kind, api.lowest, api.lowest_free_threaded) == expected


SABI = "Python_add_library(a MODULE USE_SABI 3.12 a.c)\n"


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        pytest.param(SABI, True, id="a-number"),
        pytest.param(SABI.replace("3.12", "${SKBUILD_SABI_VERSION}"), True, id="that-of-the-tag"),
        pytest.param(f"if(WIN32)\n{SABI}endif()\n", False, id="on-one-system"),
        pytest.param(f"message(STATUS {SABI!r})\nPython_add_library(b MODULE b.c)\n", False, id="a-word"),
        pytest.param(f"{SABI}Python_add_library(b MODULE b.c)\n", False, id="one-of-two"),
        pytest.param(f"{SABI}target_link_libraries(b PRIVATE Python::Module)\n", False, id="another-target"),
        pytest.param("nanobind_add_module(a STABLE_ABI a.cpp)", False, id="what-nanobind-may-not-heed"),
        pytest.param("", False, id="nowhere"),
    ],
)
def test_a_limited_api_is_stated_if_each_module_asks_for_it_on_each_system(
    tmp_path: Path, text: str, *, stated: bool
) -> None:
    files = {"pyproject.toml": pyproject("scikit_build_core.build"), "CMakeLists.txt": text}
    assert states_limit(opened(tmp_path, files)) is stated


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("set(CMAKE_CUDA_ARCHITECTURES 80 90a)", ("80 90a",), id="variable"),
        pytest.param('\nset_target_properties(a PROPERTIES CUDA_ARCHITECTURES "80;90")', ("80;90",), id="property"),
        pytest.param(
            "target_compile_options(a PRIVATE -gencode arch=compute_90a,code=sm_90a)",
            ("arch=compute_90a,code=sm_90a",),
            id="flag",
        ),
        pytest.param("# set(CMAKE_CUDA_ARCHITECTURES 80)", (), id="comment"),
        pytest.param("set(CMAKE_CUDA_ARCHITECTURES ${ARCHS})", (), id="from-outside"),
    ],
)
def test_architectures_that_cmake_files_set_are_read(tmp_path: Path, text: str, expected: tuple[str, ...]) -> None:
    assert tuple(archs for archs, _ in found(tmp_path, "", CMakeLists_txt=text).archs) == expected


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param('cmake.args = ["-DCMAKE_CUDA_ARCHITECTURES=90"]', id="argument"),
        pytest.param('[tool.scikit-build.cmake.define]\nCMAKE_CUDA_ARCHITECTURES = "90"', id="definition"),
    ],
)
def test_architectures_that_the_configuration_sets_are_read(tmp_path: Path, settings: str) -> None:
    (forced,) = found(tmp_path, settings).archs
    assert isinstance(forced, Forced)
    assert (forced.archs, forced.where.partition(":")[0]) == ("90", "pyproject.toml")
