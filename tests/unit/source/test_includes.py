"""Which of the source's own files an include means."""

from __future__ import annotations

from pathlib import Path

import pytest

from ci_tools.source.files import Tree
from ci_tools.source.includes import Includes
from tests.builders.sources import write

FILES = {"core/util.h": "", "op/util.h": "#include <torch/all.h>\n"}


@pytest.mark.parametrize(
    ("file", "line", "reached"),
    [
        pytest.param("core/a.cpp", '#include "util.h"', [], id="beside-the-includer"),
        pytest.param("core/a.cpp", '#include "../op/util.h"', ["torch/all.h"], id="in-the-folder-that-it-names"),
        pytest.param("core/a.cpp", "#include <util.h>", ["torch/all.h"], id="in-any-include-folder"),
        pytest.param("core/a.cpp", '#include_next "util.h"', ["torch/all.h"], id="the-next-one"),
        pytest.param("other/a.cpp", '#include "util.h"', ["torch/all.h"], id="not-beside-the-includer"),
        pytest.param("core/a.cpp.in", '#include "util.h"', ["torch/all.h"], id="in-a-file-that-is-written-elsewhere"),
        pytest.param("core/a.pyx", 'cdef extern from "util.h":', ["torch/all.h"], id="in-a-file-of-cython"),
    ],
)
def test_a_quoted_header_beside_its_includer_is_that_one(
    tmp_path: Path, file: str, line: str, reached: list[str]
) -> None:
    files = {**FILES, file: f"{line}\n"}
    found = Includes(Tree(write(tmp_path, files), tuple(files))).external_includes([file])
    assert [include.header for include in found] == reached
