"""What a change does to a plan, and which line of which file it is said to be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ci_tools import catalog
from ci_tools.plan import make
from ci_tools.plan.compare.changes import Side
from ci_tools.plan.compare.comparison import compare
from tests.builders.sources import demo, world
from tests.unit.plan.compare.test_comparison import told

CATALOG = catalog.load()
TORCH, PYTHON = "#include <torch/extension.h>\n", "#include <Python.h>\n"
LINES = {"python": "fatwheel.yml:2", "torch": "fatwheel.yml:3", "platforms": "fatwheel.yml:4"}


def side(folder: Path, files: Mapping[str, str], *, seen: bool = True) -> Side:
    """Plan a project; where it is not `seen`, its plan alone is known."""
    planned = make.make_plan(demo(folder, files) / "fatwheel.yml", world(folder.parent))
    return Side(planned.plan, planned.evidence, LINES) if seen else Side(planned.plan)


@pytest.mark.slow
@pytest.mark.parametrize("seen", [True, False])
def test_what_only_running_its_setup_tells_is_said_of_its_setup(tmp_path: Path, *, seen: bool) -> None:
    limited = "[Extension('demo_c', ['k.cpp'], py_limited_api=True, define_macros=[('Py_LIMITED_API', '0x030b0000')])]"
    plain = "[Extension('demo_c', ['k.cpp'])]"
    files = {
        "fatwheel.yml": 'package: demo\npython: ["3.11", "3.12"]\nplatforms:\n  linux-cpu: {owner: "@us"}\n',
        "pyproject.toml": '[build-system]\nrequires = ["setuptools>=77"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "demo"\nversion = "1.0"\n',
        "k.cpp": PYTHON,
    }
    start, tag = (
        "from setuptools import Extension, setup\nsetup(ext_modules=",
        "{'bdist_wheel': {'py_limited_api': 'cp311'}}",
    )
    before = side(tmp_path / "before" / "demo", {**files, "setup.py": f"{start}{plain})\n"}, seen=seen)
    after = side(tmp_path / "after" / "demo", {**files, "setup.py": f"{start}{limited}, options={tag})\n"}, seen=seen)
    assert told(compare(before, after, "main", CATALOG)) == ["`setup.py` turned 2 jobs into 1."]
    assert told(compare(after, before, "main", CATALOG)) == ["`setup.py` turned 1 job into 2."]
