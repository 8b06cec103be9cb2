from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ci_tools.model.evidence import Binding, CellEvidence, Extensions, PythonApi, TorchAbi
from ci_tools.model.platforms import Cell
from ci_tools.model.versions import Minor, Python
from ci_tools.source.backends.facts import apply_declared_tag
from ci_tools.source.files import tree_at
from ci_tools.source.project_file import ProjectFile
from tests.builders.sources import CONFIG, request_of, write

WHY = "setup.py:1: it imports skbuild, which is not simulated"
UNKNOWN = CellEvidence(
    extensions=Extensions.UNKNOWN,
    extensions_where=WHY,
    python_api=PythonApi(Binding.UNKNOWN, WHY),
    torch_abi=TorchAbi(Binding.UNKNOWN, WHY),
)
CFG = {"setup.cfg": "[metadata]\nname = demo\n[bdist_wheel]\npy_limited_api = cp37\n"}


def declared(folder: Path, files: dict[str, str], python: str = "3.13", evidence: CellEvidence = UNKNOWN) -> PythonApi:
    """Return the Python API of a cell's evidence, with what the project's files declare."""
    write(folder, {"fatwheel.yml": CONFIG, "setup.py": "import skbuild\n", **files})
    project = ProjectFile(request_of(folder), tree_at(folder, {}))
    cell = Cell("linux-cpu", None, None, Python.parse(python))
    return apply_declared_tag(evidence, cell, project).python_api


@pytest.mark.parametrize(
    ("files", "where"),
    [
        pytest.param(CFG, "setup.cfg:4", id="setup.cfg"),
        pytest.param({"setup.cfg": "[bdist_wheel]\npy-limited-api: cp37\n"}, "setup.cfg:2", id="dashes"),
        pytest.param({"pyproject.toml": '[tool.distutils.bdist_wheel]\npy-limited-api = "cp37"\n'},
                     "pyproject.toml:2", id="pyproject.toml"),
        pytest.param({"setup.py": "import skbuild\nskbuild.setup(options={'bdist_wheel': {'py_limited_api': 'cp37'}})"},
                     "setup.py:2", id="setup.py"),
    ],
)  # fmt: skip
def test_a_build_that_is_not_understood_has_the_limited_api_that_it_declares(
    tmp_path: Path, files: dict[str, str], where: str
) -> None:
    found = declared(tmp_path, files)
    assert found == PythonApi(Binding.STABLE, f"{where}: bdist_wheel's py_limited_api is cp37", Minor(3, 7))


@pytest.mark.parametrize(
    ("files", "python"),
    [
        pytest.param({}, "3.13", id="nothing"),
        pytest.param(CFG, "3.14t", id="without-the-gil"),
        pytest.param({"setup.cfg": "[bdist_wheel]\npy_limited_api = 3.7\n"}, "3.13", id="no-tag"),
        pytest.param({"setup.cfg": "[bdist_wheel]\nuniversal = 1\n"}, "3.13", id="another-setting"),
        pytest.param({"pyproject.toml": "[tool.distutils.bdist_wheel]\npy_limited_api = true\n"}, "3.13", id="no-text"),
    ],
)
def test_nothing_collapses_without_a_declaration(tmp_path: Path, files: dict[str, str], python: str) -> None:
    assert declared(tmp_path, files, python) is UNKNOWN.python_api


def test_what_is_observed_is_not_overruled(tmp_path: Path) -> None:
    full = PythonApi(Binding.FULL, "setup.py was run: its wheel is tagged for the Python that builds it")
    seen = dataclasses.replace(UNKNOWN, extensions=Extensions.SOME, python_api=full)
    assert declared(tmp_path, CFG, evidence=seen) is full
