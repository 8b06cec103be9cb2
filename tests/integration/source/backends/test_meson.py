from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.source.backends.test_meson import found

PROJECT = "project('demo', 'c')\npy = import('python').find_installation()\n"
PURE = f"{PROJECT}py.install_sources('demo.py')\n"


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
