"""What is put into a pyproject.toml."""

from __future__ import annotations

import sys

import pytest

from ci_tools.formats.toml import text as toml_text
from ci_tools.model.versions import Minor

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="what setup.py builds is observed on Linux"),
    pytest.mark.slow,  # many real processes
]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("[tool.scikit-build]\n", '[tool.scikit-build]\nwheel.py-api = "cp310"\n', id="its-table"),
        pytest.param(
            "[tool.scikit-build.wheel]\na = 1", '[tool.scikit-build.wheel]\npy-api = "cp310"\na = 1', id="the-wheels"
        ),
        pytest.param("[project]", '[project]\n\n[tool.scikit-build]\nwheel.py-api = "cp310"\n', id="no-table"),
        pytest.param('[tool.scikit-build]\nwheel.py-api = ""\n', None, id="set-already"),
        pytest.param('a = """\n[tool.scikit-build]\n"""\n', None, id="a-table-in-a-text"),
    ],
)  # fmt: skip
def test_py_api_is_put_into_a_pyproject(before: str, after: str | None) -> None:
    assert toml_text.set_py_api(before, "cp310") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('[project]\nrequires-python = ">=3.9"', '[project]\nrequires-python = ">=3.12"', id="the-oldest"),
        pytest.param("[project]\n", '[project]\nrequires-python = ">=3.12"\n', id="none-is-named"),
        pytest.param('[project]\nrequires-python = ">=3.9,<3.14"', None, id="others-are-named-too"),
        pytest.param('[project]\ndynamic = ["requires-python"]', None, id="the-build-names-it"),
        pytest.param("[tool.x]\n", None, id="no-project"),
        pytest.param('[tool.x]\na = """\n[project]\n"""\n', None, id="a-table-in-a-text"),
    ],
)  # fmt: skip
def test_a_newer_python_is_asked_for(before: str, after: str | None) -> None:
    assert toml_text.raise_requires_python(before, Minor(3, 12)) == after
