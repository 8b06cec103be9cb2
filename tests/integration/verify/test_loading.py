"""A package that is said to do without a library of its wheel is imported without it, with a real torch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ci_tools.verify.loading import explain_failed_import
from tests.builders.wheels import library, make

pytestmark = pytest.mark.slow  # torch is imported, and a library compiled
MEMBER = "demo/_C_new.so"
WHEEL = "demo-1.0-cp310-abi3-linux_x86_64.whl"
LOADER = """\
from pathlib import Path
import torch
for file in Path(__file__).parent.glob("_C*.so"):
    try:
        torch.ops.load_library(str(file))
    except OSError:
        ELSE
"""


@pytest.mark.parametrize(("otherwise", "fails"), [("pass", False), ("raise", True)])
def test_a_package_is_imported_with_a_library_that_nothing_loads(otherwise: str, fails: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a column of the table
    files = {"demo/__init__.py": LOADER.replace("ELSE", otherwise).encode(), MEMBER: library("int answer = 42;")}
    wheel = make(tmp_path, WHEEL, files)
    python, variables = Path(sys.executable), {"PATH": os.environ["PATH"]}
    if fails:  # and else it cannot be seen whether the library was loaded
        assert explain_failed_import(wheel, (), python, variables, tmp_path / "log") == ""
    why = explain_failed_import(wheel, (MEMBER,), python, variables, tmp_path / "log")
    assert why.startswith(f"`import demo` fails without {MEMBER}: OSError: ") is fails
    assert bool(why) is fails
