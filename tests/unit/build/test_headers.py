from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools.build.headers import (
    asked_for,
    certain_files,
    certain_includes,
    compiles_of,
    find_newer_symbols,
    folders_of,
    possible_files,
    refuse_missing,
)
from ci_tools.errors import MachineError
from ci_tools.source.files import Tree
from ci_tools.source.includes import Includes
from tests.builders.sources import evidence_of, plan_of, write

SETUP = """\
from setuptools import Extension, setup
setup(name="demo", version="1.0", ext_modules=[Extension("demo", ["a.c"], include_dirs=[%s])])
"""
CONFIG = "package: demo\npython: ['3.12']\nplatforms:\n  linux-cpu: {owner: us, native: ['*.c']}\n"
BUILD = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'


def found(folder: Path, files: Mapping[str, str]) -> list[str]:
    tree = Tree(write(folder, files), tuple(sorted(files)))
    return [f"{place} {header}" for header, place in certain_includes(Includes(tree), ["a.cu"])]


def test_an_include_is_certain_where_nothing_guards_it(tmp_path: Path) -> None:
    files = {"a.cu": '/* of\n us */\n#include <vector>\n#include "b.h"\n', "b.h": "#include <cusparse.h>\n"}
    assert found(tmp_path, files) == ["a.cu:3 vector", "b.h:1 cusparse.h"]


def test_a_guard_of_a_whole_header_is_no_condition(tmp_path: Path) -> None:
    guarded = "// ours\n#ifndef B_H\n#define B_H\n#include <cusparse.h>\n#endif\n"
    assert found(tmp_path, {"a.cu": '#include "b.h"\n', "b.h": guarded}) == ["b.h:4 cusparse.h"]


def test_the_own_headers_of_a_source_are_named_with_their_place(tmp_path: Path) -> None:
    files = {
        "src/a.cu": '#include "scale.cuh"\n#include <cuda.h>\n',
        "src/scale.cuh": '#include "b.h"\n',
        "src/b.h": "",
    }
    tree = Tree(write(tmp_path, files), tuple(sorted(files)))
    found = certain_files(Includes(tree), ["src/a.cu"])
    assert {name: str(place) for name, place in found.items()} == {
        "src/scale.cuh": "src/a.cu:1",
        "src/b.h": "src/scale.cuh:1",
    }


@pytest.mark.parametrize(
    ("header", "needs"),
    [
        pytest.param("vector", True, id="a-container"),
        pytest.param("torch/extension.h", True, id="torch"),
        pytest.param("pybind11/stl.h", True, id="pybind11"),
        pytest.param("torch/csrc/stable/tensor.h", False, id="stable-torch"),
        pytest.param("cstdint", False, id="no-library-code"),
        pytest.param("Python.h", False, id="c"),
    ],
)
def test_a_header_tells_whether_its_code_needs_a_new_library(tmp_path: Path, *, header: str, needs: bool) -> None:
    tree = Tree(write(tmp_path, {"a.cpp": f"#include <{header}>\n"}), ("a.cpp",))
    assert bool(find_newer_symbols(tree, ["a.cpp"])) == needs


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("#if __has_include(<cusparse.h>)\n#include <cusparse.h>\n#endif\n", id="asked"),
        pytest.param(
            "#ifdef USE_SPARSE\n# include <cusparse.h>\n#else\n#include <cublas_v2.h>\n#endif\n", id="a-macro"
        ),
        pytest.param("// #include <cusparse.h>\n/*\n#include <cusparse.h>\n*/\n", id="comments"),
        pytest.param('auto text = R"(\n#include <cusparse.h>\n)";\n', id="a-string"),
        pytest.param("#define LONG \\\n#include <cusparse.h>\n", id="a-line-that-goes-on"),
        pytest.param("#include SPARSE\n", id="a-macro-s-name"),
    ],
)
def test_what_may_be_left_out_is_not_certain(text: str, tmp_path: Path) -> None:
    assert found(tmp_path, {"a.cu": text}) == []


def test_a_header_that_two_files_may_be_is_not_followed(tmp_path: Path) -> None:
    files = {"a.cu": '#include "b.h"\n', "x/b.h": "#include <cusparse.h>\n", "y/b.h": ""}
    assert found(tmp_path, files) == []


def test_a_header_that_the_compiler_does_not_find_is_named_with_its_line(tmp_path: Path) -> None:
    files = {"a.cu": "#include <vector>\n\n#include <cusparse.h>\n#include <cufile.h>\n"}
    asked = asked_for(Tree(write(tmp_path, files), ("a.cu",)), ["a.cu"], cuda=True)
    (tmp_path / "toolkit").mkdir()
    (tmp_path / "toolkit/cufile.h").touch()
    with pytest.raises(MachineError) as refused:
        refuse_missing(asked, "c++", [tmp_path / "toolkit"], os.environ)
    assert refused.value.message == "a.cu:3: includes cusparse.h of cuSPARSE, and the compiler finds none here"


def test_a_compiler_that_does_not_answer_refuses_nothing(tmp_path: Path) -> None:
    asked = asked_for(Tree(write(tmp_path, {"a.cu": "#include <cusparse.h>\n"}), ("a.cu",)), ["a.cu"], cuda=True)
    refuse_missing(asked, "false", [], os.environ)


def test_headers_of_others_are_nobody_s_to_say(tmp_path: Path) -> None:
    files = {"a.cu": "#include <pybind11/pybind11.h>\n#include <cutlass/cutlass.h>\n#include <torch/extension.h>\n"}
    assert asked_for(Tree(write(tmp_path, files), ("a.cu",)), ["a.cu"], cuda=True) == {}


def test_an_interpreter_says_where_its_headers_lie() -> None:
    assert all(folder.is_absolute() for folder in folders_of(Path(sys.executable)))


@pytest.mark.parametrize(("include", "files"), [('"src"', ("a.c",)), ('"/opt/other/include"', ())])
def test_sources_are_known_where_their_compiler_looks_nowhere_else(
    include: str, files: tuple[str, ...], tmp_path: Path
) -> None:
    source = {"setup.py": SETUP % include, "pyproject.toml": BUILD, "fatwheel.yml": CONFIG, "a.c": "int a;\n"}
    write(tmp_path / "a", source)
    (job,) = plan_of(tmp_path / "a").jobs
    assert compiles_of(job, evidence_of(tmp_path / "a")) == files


def test_a_header_under_a_condition_may_be_read_and_one_of_several_is_not_known(tmp_path: Path) -> None:
    files = {
        "a.c": '#ifdef X\n#include "win.h"\n#endif\n#include "config.h"\n',
        "win.h": '#include "in.h"\n',
        "in.h": "",
    }
    tree = Tree(write(tmp_path, files), (*files, "a/config.h", "b/config.h"))
    found = possible_files(Includes(tree), ["a.c"])
    assert {name: str(at) for name, at in found.items()} == {"win.h": "a.c:2", "in.h": "win.h:1"}
