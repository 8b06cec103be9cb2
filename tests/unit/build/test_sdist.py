"""What an sdist has to have of its source."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from ci_tools.build.sdist import list_lacking, refuse_lacking
from ci_tools.errors import Rejected
from ci_tools.source.includes import SourceLine
from tests.builders.sources import write


def sdist(folder: Path) -> Path:
    root = write(folder / "demo-1.0", {"csrc/a.c": "", "csrc/a.h": ""})
    with tarfile.open(folder / "demo-1.0.tar.gz", "w:gz") as archive:
        archive.add(root, "demo-1.0")
    return folder / "demo-1.0.tar.gz"


@pytest.mark.parametrize(
    ("needed", "sentence"),
    [
        pytest.param(
            {"csrc/b.h": SourceLine("csrc/a.c", 2)}, "csrc/a.c:2: includes csrc/b.h, which demo-1.0", id="header"
        ),
        pytest.param({"csrc/b.c": SourceLine("csrc/b.c", 1)}, "csrc/b.c: a job compiles it, and demo-1.0", id="source"),
    ],
)
def test_a_file_that_a_job_reads_is_in_the_sdist(needed: dict[str, SourceLine], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(Rejected) as caught:
        refuse_lacking(sdist(tmp_path), needed, "")
    assert caught.value.message.startswith(sentence)


def test_a_file_of_another_project_of_the_repository_is_not_looked_for(tmp_path: Path) -> None:
    names = ("demo/csrc/a.c", "demo/csrc/b.c", "shared/c.h")
    assert list_lacking(sdist(tmp_path), names, "demo") == ("demo/csrc/b.c",)
