"""What a build says of its units names them as people know them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.build.units.calls import read_call
from ci_tools.build.units.report import COMPILED, UnitReport


@pytest.mark.parametrize(
    ("folder", "source"),
    [
        pytest.param("/b/source", "csrc/a.cu", id="setuptools"),
        pytest.param("/b/source/build/temp", "../../csrc/a.cu", id="ninja"),
        pytest.param("/b/cmake", "/b/source/csrc/a.cu", id="cmake"),
    ],
)
def test_a_source_is_named_from_the_folder_of_the_project(folder: str, source: str) -> None:
    call = read_call(Path("/usr/bin/g++"), ["-c", source, "-o", "a.o"], Path(folder), {})
    assert call
    report = UnitReport(Path("/b/source"))
    report.add(call, COMPILED)
    assert [unit.source for unit in report.units] == ["csrc/a.cu"]
