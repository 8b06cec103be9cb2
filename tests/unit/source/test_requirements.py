"""What importing a package needs and its dependencies do not bring, as far as its text makes it certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.source.files import open_tree
from ci_tools.source.project_file import ProjectFile
from ci_tools.source.requirements import find_lacking
from tests.builders.sources import request_of, shared_world, write

CONFIG = "package: demo\nversion: '1'\npython: ['3.12']\nplatforms:\n  linux-cpu:\n"
TABLE = '[project]\nname = "demo"\nversion = "1"\ndependencies = [DEPENDENCIES]\n'
EXTRAS = '[project.optional-dependencies]\ngpu = ["torch>=2.8", "PyYAML"]\n'
SETUPTOOLS = ("Requires-Dist: packaging", 'Requires-Dist: torch>=2; extra == "gpu"')


def lacking(
    root: Path, files: dict[str, str], project: str = "", metadata: tuple[str, ...] = (), config: str = CONFIG
) -> list[str]:
    named = project or TABLE.replace("DEPENDENCIES", "") + EXTRAS
    folder = write(root, {"fatwheel.yml": config, "pyproject.toml": named, **files})
    request = request_of(folder)
    found = find_lacking(ProjectFile(request, open_tree(request, folder, shared_world())), ["demo"], metadata)
    return [f"{one.requirement} {one.extra} {one.place}".replace("  ", " ") for one in found]


def test_what_only_an_extra_brings_is_found_with_its_place(tmp_path: Path) -> None:
    files = {"src/demo/__init__.py": "from . import core\n", "src/demo/core.py": '"""Text."""\nimport yaml, torch.nn\n'}
    assert lacking(tmp_path, files) == ["pyyaml gpu src/demo/core.py:2", "torch gpu src/demo/core.py:2"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("try:\n    import torch\nexcept ImportError:\n    torch = None\n", id="an-attempt"),
        pytest.param("import typing\nif typing.TYPE_CHECKING:\n    import torch\n", id="for-types"),
        pytest.param("def use():\n    import torch\n", id="later"),
        pytest.param("from demo import torch_parts\nimport demo_torch\n", id="its-own"),
        pytest.param("import json, os.path\n", id="of-python"),
        pytest.param("import torch syntax error", id="no-python"),
    ],
)
def test_what_is_not_certain_is_not_said(text: str, tmp_path: Path) -> None:
    assert lacking(tmp_path, {"demo/__init__.py": text, "demo/torch_parts.py": ""}) == []


@pytest.mark.parametrize(
    ("dependencies", "expected"),
    [("", ["torch demo.py:1"]), ('"packaging"', ["torch demo.py:1"]), ('"torch>2"', []), ('"torchvision"', [])],
    ids=["nothing", "what-brings-none", "torch", "what-may-bring-it"],
)
def test_torch_that_nothing_declares_is_lacking(dependencies: str, expected: list[str], tmp_path: Path) -> None:
    assert lacking(tmp_path, {"demo.py": "import torch\n"}, TABLE.replace("DEPENDENCIES", dependencies)) == expected


@pytest.mark.parametrize(
    ("dependencies", "text", "expected"),
    [
        pytest.param("", "import unyt\n", ["unyt demo.py:1"], id="nothing-is-required"),
        pytest.param('"numpy"', "import unyt\n", ["unyt demo.py:1"], id="what-is-required-brings-nothing"),
        pytest.param('"torch"', "import sympy\n", [], id="torch-brings-it"),
        pytest.param('"torch"', "import pandas\n", ["pandas demo.py:1"], id="torch-does-not"),
        pytest.param('"datasets"', "import pandas\n", [], id="what-is-required-may-bring-it"),
        pytest.param("", "import _demo, made, listed\n", [], id="modules-that-the-project-makes"),
    ],
)
def test_a_module_of_another_project_that_nothing_brings_is_lacking(
    dependencies: str, text: str, expected: list[str], tmp_path: Path
) -> None:
    files = {"demo.py": text, "src/made.cpp": "", "setup.py": "Extension('listed', [])\n"}
    assert lacking(tmp_path, files, TABLE.replace("DEPENDENCIES", dependencies)) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param('unyt = "^3"\n', [], id="required"),
        pytest.param('unyt = { version = "^3", optional = true }\n', ["unyt demo.py:1"], id="optional"),
    ],
)
def test_what_poetrys_own_table_requires_is_not_lacking(table: str, expected: list[str], tmp_path: Path) -> None:
    project = '[build-system]\nbuild-backend = "poetry.core.masonry.api"\n[project]\nname = "demo"\nversion = "1"\n'
    project += f'[tool.poetry.dependencies]\npython = "^3.12"\n{table}'
    assert lacking(tmp_path, {"demo.py": "import unyt\n"}, project) == expected


@pytest.mark.parametrize(
    ("file", "text"),
    [
        pytest.param("native/CMakeLists.txt", "pybind11_add_module(fastgrid grid.cc)", id="cmake-below"),
        pytest.param("CMakeLists.txt", "set(CORE fastgrid)\nPython_add_library(${CORE} a.cc)", id="cmake-variable"),
        pytest.param("cmake/core.cmake", 'nanobind_add_module("fastgrid" a.cc)', id="cmake-included"),
        pytest.param("native/a.cc", "NB_MODULE(fastgrid, m) {}", id="macro"),
        pytest.param("native/a.c", "PyMODINIT_FUNC PyInit_fastgrid(void) { return 0; }", id="init-function"),
    ],
)
def test_a_module_that_the_build_makes_is_not_lacking(file: str, text: str, tmp_path: Path) -> None:
    files = {"demo.py": "import fastgrid\n"}
    assert lacking(tmp_path / "without", files, TABLE.replace("DEPENDENCIES", "")) == ["fastgrid demo.py:1"]
    assert lacking(tmp_path / "with", {**files, file: text}, TABLE.replace("DEPENDENCIES", "")) == []


def test_a_module_named_after_the_package_is_not_lacking_where_its_distribution_is_named_otherwise(
    tmp_path: Path,
) -> None:
    config = CONFIG.replace("package: demo", "package: other")
    table = TABLE.replace("DEPENDENCIES", "").replace('"demo"', '"other"')
    assert lacking(tmp_path, {"demo.py": "import demo_native, other_native\n"}, table, config=config) == []


@pytest.mark.parametrize(
    ("metadata", "expected"), [(SETUPTOOLS, ["torch gpu demo.py:1"]), ((), [])], ids=["observed", "not-observed"]
)
def test_what_a_setup_py_requires_is_known_by_its_observed_build(
    metadata: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    assert lacking(tmp_path, {"demo.py": "import torch\n", "setup.py": ""}, "# none\n", metadata) == expected


@pytest.mark.parametrize("key", ["requires: [torch]", "torch: '2.13.0'"])
def test_what_the_config_installs_for_the_trials_is_not_lacking(key: str, tmp_path: Path) -> None:
    assert lacking(tmp_path, {"demo.py": "import torch\n"}, config=f"{CONFIG}validate: {{{key}}}\n") == []


@pytest.mark.parametrize(
    ("module", "listed", "expected"),
    [
        ("tree", "", "dm-tree"),
        ("unyt", "numpy\npy-unyt>=2 # units\n", "py-unyt"),
        ("unyt", "py-unyt\nunyt-py\n", "unyt"),
    ],
    ids=["by-the-table", "as-the-project-lists-it", "two-that-may-be-meant"],
)
def test_a_module_of_a_distribution_of_another_name_is_called_by_that(
    module: str, listed: str, expected: str, tmp_path: Path
) -> None:
    files = {"demo.py": f"import {module}\n", "requirements.txt": listed}
    assert lacking(tmp_path, files, TABLE.replace("DEPENDENCIES", "")) == [f"{expected} demo.py:1"]
