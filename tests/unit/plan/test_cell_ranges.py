"""Ranges describe the cells that they stand for: all of them, no other, and in few words."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_tools.catalog.accelerators.cuda import CUDA as NVIDIA
from ci_tools.model.platforms import Accelerator, Cell, Platform
from ci_tools.model.versions import Minor, Python
from ci_tools.plan.cell_ranges import PlanAxes, accelerator_of, blocks
from tests.builders.sources import plan_of, write

CUDA = Accelerator(NVIDIA, Minor(13, 0))
PLACES = ((Platform.LINUX_CUDA, CUDA), (Platform.LINUX_CPU, None), (Platform.WINDOWS, None))
TORCHES = (None, Minor(2, 10), Minor(2, 11), Minor(2, 12))
PYTHONS = tuple(Python(Minor(3, minor), free_threaded=False) for minor in (10, 11, 12, 13))
CELLS = [Cell(*place, torch, python) for place, torch, python in product(PLACES, TORCHES, PYTHONS)]


@given(st.lists(st.sampled_from(CELLS), unique=True, min_size=1))
def test_every_cell_is_in_one_block_and_a_block_has_every_combination(cells: list[Cell]) -> None:
    found = list(blocks(cells))
    assert sorted(map(str, cells)) == sorted(str(cell) for block in found for cell in block)
    for block in found:
        places = {(cell.platform, accelerator_of(cell)) for cell in block}
        torches, pythons = {cell.torch for cell in block}, {cell.python for cell in block}
        assert len(block) == len(places) * len(torches) * len(pythons)


def test_cells_that_are_all_there_are_one_block() -> None:
    assert [len(block) for block in blocks(CELLS)] == [len(CELLS)]


@pytest.mark.parametrize(
    ("places", "words"),
    [
        pytest.param(slice(0, 1), "linux-cuda (cu130)", id="with-its-accelerator"),
        pytest.param(slice(1, 3), "linux-cpu, windows", id="several"),
    ],
)
def test_places_are_named(places: slice, words: str) -> None:
    axes = PlanAxes(
        [(platform, "cu130" if found else "") for platform, found in PLACES], list(TORCHES[1:]), list(PYTHONS)
    )
    cells = [Cell(*place, torch, python) for place, torch, python in product(PLACES[places], TORCHES[1:], PYTHONS)]
    assert str(axes.describe(cells)) == f"{words} / torch 2.10 to 2.12 / Python 3.10 to 3.13"


CONFIG = """\
package: demo
python: ["3.10", "3.12"]
platforms: {linux-cpu: , linux-aarch64: , macos-arm64: , windows: }
"""


def test_all_platforms_of_a_plan_have_one_name(tmp_path: Path) -> None:
    files = {"pyproject.toml": '[project]\nname = "demo"\nversion = "1"\n[build-system]\nrequires = ["hatchling"]\n'
             'build-backend = "hatchling.build"\n', "demo/__init__.py": "", "fatwheel.yml": CONFIG}  # fmt: skip
    plan = plan_of(write(tmp_path, files))
    axes, cells = PlanAxes.of(plan), [item.cell for item in plan.covered]
    assert [str(axes.describe(block)) for block in blocks(cells)] == ["all platforms / Python 3.10, 3.12"]
