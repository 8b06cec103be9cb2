"""Backends that nobody knows, and wrappers of known ones: one pure wheel where the source has nothing to compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.model.evidence import Extensions
from ci_tools.source import backends
from tests.unit.source.backends.test_declarative import BINARY, CELL, opened, pyproject

NONE, UNKNOWN = Extensions.NONE, Extensions.UNKNOWN
WRAPPER = pyproject("own:api", "", "hatchling").replace("[project]", "backend-path = ['tools']\n[project]")


@pytest.mark.parametrize(
    ("requires", "more", "expected"),
    [
        pytest.param("whey", {}, NONE, id="nothing-to-compile"),
        pytest.param("whey", {"tests/data/a.c": "", "docs/a.cpp": "", ".github/a.c": ""}, NONE, id="of-tests-and-docs"),
        pytest.param("whey", {"demo/a.pyx": ""}, UNKNOWN, id="cython"),
        pytest.param("whey", {"csrc/a.cpp.in": ""}, UNKNOWN, id="template"),
        pytest.param("whey", {"src/lib.rs": ""}, UNKNOWN, id="rust"),
        pytest.param("whey", {"CMakeLists.txt": ""}, UNKNOWN, id="cmake"),
        pytest.param("whey", {"demo/weights.bin": BINARY}, UNKNOWN, id="compiled-already"),
        pytest.param("mypy[mypyc]>=1", {}, UNKNOWN, id="requirement-that-compiles-python"),
    ],
)
def test_an_unknown_backend_makes_a_pure_wheel_of_nothing_to_compile(
    tmp_path: Path, requires: str, more: dict[str, str | bytes], expected: Extensions
) -> None:
    found = backends.read(opened(tmp_path, {"pyproject.toml": pyproject("whey", "", requires), **more}), {}, CELL)
    assert found is not None
    assert (found.extensions, found.where[:37]) == (expected, "pyproject.toml:2: what whey compiles ")


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        pytest.param("from hatchling.build import *\n", {}, NONE, id="passes-it-on"),
        pytest.param("import hatchling.build as api\n", {"hatch.toml": "[build.hooks.own]\n"}, UNKNOWN, id="a-hook"),
        pytest.param("from hatchling.build import *\n", {"demo/a.c": ""}, None, id="beside-a-source"),
        pytest.param("from hatchling.build import *\nimport urllib.request\n", {}, None, id="that-fetches"),
        pytest.param("from setuptools.build_meta import *\n", {}, None, id="setuptools-is-observed"),
    ],
)
def test_a_backend_in_the_source_counts_as_the_known_one_that_it_passes_on(
    tmp_path: Path, text: str, more: dict[str, str | bytes], expected: Extensions | None
) -> None:
    found = backends.read(opened(tmp_path, {"pyproject.toml": WRAPPER, "tools/own.py": text, **more}), {}, CELL)
    assert (found and found.extensions) == expected
