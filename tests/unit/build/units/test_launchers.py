"""Where a build's objects may come from, and what a person is told about them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ci_tools.build.units.calls import CompilerCall
from ci_tools.build.units.launchers import open_store, read_switch
from ci_tools.build.units.report import COMPILED, PLAIN, SAME_TEXT, UNCHANGED, UnitReport
from ci_tools.errors import InputError
from ci_tools.model.plan import Job
from tests.builders.sources import world

ON_GITHUB = {"GITHUB_ACTIONS": "true"}


@pytest.mark.parametrize(
    ("environ", "batch", "has_store"),
    [
        pytest.param({}, "", True, id="on-a-machine-that-stays"),
        pytest.param(ON_GITHUB, "", False, id="alone-on-a-runner"),
        pytest.param(ON_GITHUB, "linux-cpu", True, id="in-a-batch-on-a-runner"),
        pytest.param({**ON_GITHUB, "FATWHEEL_UNITS": "dir:/units"}, "", True, id="shared-with-later-runs"),
        pytest.param({"FATWHEEL_UNITS": "off"}, "linux-cpu", False, id="off"),
    ],
)
def test_a_build_has_a_store_where_another_one_reads_it(
    environ: dict[str, str],
    batch: str,
    has_store: bool,  # noqa: FBT001 - a table
    tmp_path: Path,
) -> None:
    job = cast("Job", SimpleNamespace(batch=batch))
    assert (open_store(job, world(tmp_path, **environ)) is not None) is has_store


def test_another_value_is_refused(tmp_path: Path) -> None:
    expected = "expected off, dir:PATH, s3://BUCKET/PREFIX, or an empty value"
    with pytest.raises(InputError, match=f"FATWHEEL_UNITS is 'no', {expected}"):
        open_store(cast("Job", SimpleNamespace(batch="")), world(tmp_path, FATWHEEL_UNITS="no"))


def test_a_folder_may_have_a_blank_in_its_name() -> None:
    places = "dir:/a b/shared  dir:/a b/made"
    assert read_switch({"FATWHEEL_UNITS": places}) == ("dir:/a b/shared", "dir:/a b/made")


def test_units_are_counted_and_changes_are_told() -> None:
    report, call = UnitReport(), CompilerCall(Path("/usr/bin/g++"), (), Path("/s"), {}, ("a.cpp",))
    for how, why in ((UNCHANGED, ""), (SAME_TEXT, ""), (COMPILED, "<source>/h.h:3"), (COMPILED, ""), (PLAIN, "-ptx")):
        report.add(call, how, why)
    assert [*report.describe()] == [
        "4 compile units: 2 from the store (1 by their text), 2 compiled",
        "1 compiled, as this is not as in the store: <source>/h.h:3",
        "not shared, 1 of the compiler's calls: -ptx",
    ]


def test_a_build_that_compiles_nothing_says_nothing() -> None:
    assert [*UnitReport().describe()] == []
