from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ci_tools.model.versions import Python
from ci_tools.source import backends
from ci_tools.source.backends import CellFacts
from tests.builders.sources import CONFIG
from tests.unit.source.backends.test_declarative import opened, pyproject

if TYPE_CHECKING:
    from pathlib import Path

    from ci_tools.source.backends import Read
PROJECT = "project('demo', 'c')\npy = import('python').find_installation()\n"
PURE = f"{PROJECT}py.install_sources('demo.py')\n"
PYTHONS = CONFIG.replace('"3.12"', '"3.10", "3.11", "3.12", "3.14t", "3.15t"')


def found(
    folder: Path, build: str, settings: str = "", python: str = "3.12", more: dict[str, str | bytes] | None = None
) -> Read:
    content = pyproject("mesonpy", f"[tool.meson-python]\n{settings}\n")
    files = {"pyproject.toml": content, "fatwheel.yml": PYTHONS, "meson.build": build, **(more or {})}
    read = backends.read(opened(folder, files), {}, CellFacts("linux", "x86_64", Python.parse(python)))
    assert read is not None
    return read


# ---------------------------------------------------------------- files that nobody wrote


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "repeated"),
    [
        pytest.param("set(x ", "${", id="brackets-that-stay-open"),
        pytest.param("", "set(x: ", id="calls-that-stay-open"),
        pytest.param("", "\\'", id="a-text-that-stays-open"),
        pytest.param("", "subdir(x)\n", id="folders-that-are-not-named"),
    ],
)
def test_the_time_that_a_file_takes_grows_with_its_length(before: str, repeated: str, tmp_path: Path) -> None:
    started = time.process_time()
    found(tmp_path, PURE + before + repeated * 30_000)
    assert time.process_time() - started < 3
