"""A wheel that its settings tag abi3: its plan believes what cmake compiles for each system, and no word in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.errors import InputError
from tests.builders.sources import SCIKIT, plan_of, write
from tests.integration.observe.test_labels import MODULE

pytestmark = pytest.mark.slow  # real processes

CONFIG = """\
package: demo
python: ["3.12", "3.13"]
platforms: {linux-cpu: {owner: "@demo/cpu"}, windows: {owner: "@demo/windows"}}
"""
PROJECT = f'{SCIKIT}requires-python = ">=3.12"\n[tool.scikit-build]\nwheel.py-api = "cp312"\n'
HEAD = """\
cmake_minimum_required(VERSION 3.26)
project(demo LANGUAGES C CXX)
find_package(Python REQUIRED COMPONENTS Development.Module ${SKBUILD_SABI_COMPONENT})
"""
FILES = {"a.c": f"#include <Python.h>\n{MODULE}", "a.cpp": "#include <nanobind/nanobind.h>\n", "b.cpp": ""}
PLAIN = "Python_add_library(a MODULE WITH_SOABI a.c)\n"
SABI = PLAIN.replace("a.c", "USE_SABI ${SKBUILD_SABI_VERSION} a.c")
BY_HAND = (
    "add_library(a MODULE a.c)\ntarget_link_libraries(a Python::Module)\ntarget_compile_definitions(a PRIVATE {})\n"
)
LIMIT = BY_HAND.format("Py_LIMITED_API=0x030C0000")
NANOBIND = "find_package(nanobind)\nnanobind_add_module(a STABLE_ABI a.cpp)\n"


def written(folder: Path, lines: str) -> Path:
    files = {"fatwheel.yml": CONFIG, "pyproject.toml": PROJECT, "CMakeLists.txt": HEAD + lines, **FILES}
    return write(folder / "a", files)


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(f"set(X USE_SABI ${{SKBUILD_SABI_VERSION}})\n{PLAIN.replace('a.c', '${X} a.c')}", id="a-variable"),
        pytest.param(f"if(WIN32)\n{SABI}else()\n{SABI}endif()\n", id="on-both-systems"),
        pytest.param(f"{SABI}Python_add_library(tests MODULE a.c)\ninstall(TARGETS a DESTINATION demo)\n",
                     id="beside-one-that-is-not-installed", marks=pytest.mark.long),
        pytest.param(LIMIT, id="a-definition", marks=pytest.mark.long),
        pytest.param(NANOBIND, id="nanobind", marks=pytest.mark.long),
        pytest.param(f"{SABI}add_library(b SHARED b.cpp)\n", id="a-library-without-python", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_one_wheel_serves_every_python_where_all_that_is_compiled_keeps_to_its_tag(lines: str, tmp_path: Path) -> None:
    plan = plan_of(written(tmp_path, lines))
    assert {job.wheel.split("-")[3] for job in plan.jobs} == {"abi3"}
    assert (len(plan.jobs), plan.warnings) == (2, ())


NOT_LIMITED = "a.c:1: includes Python.h, and nothing defines Py_LIMITED_API before it"


@pytest.mark.parametrize(
    ("lines", "systems", "said"),
    [
        pytest.param(f"if(WIN32)\n{SABI}else()\n{PLAIN}endif()\n", {"linux-cpu"}, NOT_LIMITED, id="on-one-system"),
        pytest.param(f'option(STABLE "" OFF)\nif(STABLE)\n{SABI}else()\n{PLAIN}endif()\n', {"linux-cpu", "windows"},
                     NOT_LIMITED, id="behind-an-option"),
        pytest.param(f"message(STATUS USE_SABI STABLE_ABI)\n{PLAIN}", {"linux-cpu", "windows"}, NOT_LIMITED,
                     id="in-a-message", marks=pytest.mark.long),
        pytest.param(NANOBIND.replace(" STABLE_ABI", ""), {"linux-cpu", "windows"}, "a.cpp:1: includes nanobind/",
                     id="nanobind-without-it", marks=pytest.mark.long),
        pytest.param(f'{LIMIT}set_target_properties(a PROPERTIES SUFFIX ".${{SKBUILD_SOABI}}.so")\n',
                     {"linux-cpu", "windows"}, "liba is named for the Python that builds it", id="by-its-file-name"),
        pytest.param(f"if(UNIX)\n{LIMIT.replace('0C', '0D')}else()\n{LIMIT}endif()\n", {"linux-cpu"},
                     "so Python 3.12 installs it, but a.c is compiled with -DPy_LIMITED_API=0x030D0000",
                     id="a-newer-limited-api-on-one-system", marks=pytest.mark.long),
    ],
)  # fmt: skip
def test_a_plan_stops_where_what_cmake_compiles_breaks_the_tag(
    lines: str, systems: set[str], said: str, tmp_path: Path
) -> None:
    if systems == {"linux-cpu"}:  # the other one is served
        sentences = plan_of(written(tmp_path, lines)).warnings
    else:
        with pytest.raises(InputError) as caught:
            plan_of(written(tmp_path, lines))
        sentences = str(caught.value).splitlines()
    assert {name for name in ("linux-cpu", "windows") for one in sentences if f": {name}: the wheel" in one} == systems
    assert any(said in one for one in sentences)


def test_a_tag_is_doubted_where_cmake_asks_what_no_cell_defines(tmp_path: Path) -> None:
    lines = f"execute_process(COMMAND tool OUTPUT_VARIABLE X)\nif(X)\n{SABI}else()\n{PLAIN}endif()\n"
    (warning,) = plan_of(written(tmp_path, lines)).warnings
    assert "pyproject.toml:9: the wheel is tagged cp312-abi3, though whether its libraries keep to the" in warning
    assert "limited API is not known (CMakeLists.txt:4: cmake's configure step runs tool)" in warning
