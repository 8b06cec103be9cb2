"""A first recipe from what a source shows: torch only where the source uses it, and what a person has to decide."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from ci_tools.recipes.first import Written, write_first
from tests.builders.sources import world, write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

SETUP = """\
from setuptools import Extension, setup
setup(name="demo", version="1.0", ext_modules=[Extension("x", ["x.cpp"])])
"""
BUILD = '[build-system]\nrequires = ["setuptools"{}]\nbuild-backend = "setuptools.build_meta"\n'
# OpenCV includes such a name by a macro, which only a compiler reads, and has nothing to do with torch.
BY_MACRO = "#include GENERATED_HEADER\n"


def first(tmp_path: Path, files: dict[str, str]) -> tuple[dict[str, Any], Written]:
    """Return the recipe that a repository with these files gets, and what is left to decide."""
    source = write(tmp_path / "upstream", {"setup.py": SETUP, **files})
    who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.invalid"}
    who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.invalid"}
    for words in ("init --quiet", "add .", "commit --quiet --message first", "tag v1.0"):
        subprocess.run(["git", "-C", source, *words.split()], check=True, env={**os.environ, **who})
    written = write_first(str(source), tmp_path / "recipe", world(tmp_path))
    root: dict[str, Any] = yaml.safe_load(written.config.read_text(encoding="utf-8"))
    return root, written


@pytest.mark.parametrize(
    ("files", "uses"),
    [
        pytest.param({"x.cpp": "int x;\n"}, False, id="no-torch"),
        pytest.param({"x.cpp": BY_MACRO, "x.cu": "int y;\n"}, False, id="a-header-by-a-macro"),
        pytest.param({"x.cpp": f"#include <torch/extension.h>\n{BY_MACRO}"}, True, id="a-header-of-torch"),
        pytest.param({"x.cpp": BY_MACRO, "pyproject.toml": BUILD.format(', "torch>=2.9"')}, True, id="required"),
        pytest.param({"x.cpp": BY_MACRO, "CMakeLists.txt": "find_package(Torch REQUIRED)\n"}, True, id="by-cmake"),
    ],
)
def test_a_recipe_names_torch_only_where_the_source_uses_it(tmp_path: Path, files: dict[str, str], uses: bool) -> None:  # noqa: FBT001 - a table's column
    root, written = first(tmp_path, files)
    named = [name for name in ("tag", "title", "local") if "{torch}" in root["release"][name]]
    assert ("torch" in root, bool(named)) == (uses, uses)
    assert any("`torch`" in line for line in written.decisions) == uses
    doubts = [line for line in written.decisions if line.startswith("whether its wheels need a torch")]
    assert bool(doubts) == (not uses and BY_MACRO in files["x.cpp"])
    assert all("x.cpp:1" in line for line in doubts)
