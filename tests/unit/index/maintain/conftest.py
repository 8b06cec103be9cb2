from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_tools.index.wheel_index import WheelIndex
from ci_tools.machine.context import Outside, Silent
from tests.builders.indexes import demo_index


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(environ=os.environ, cache=tmp_path / "cache", reporter=Silent())


@pytest.fixture
def index(tmp_path: Path) -> WheelIndex:
    """An index with two versions of a project, and another project."""
    return demo_index(tmp_path)
