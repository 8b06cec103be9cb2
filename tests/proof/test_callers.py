"""The record of real callers: no false alarm, and every flaw named in three of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.builders.flawed_callers import FLAWS
from tests.proof.callers import RECORD, SEEDS, callers, main

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))


def test_the_record_is_of_the_list_and_has_no_false_alarm() -> None:
    assert [one["repository"] for one in RECORDED["callers"]] == [one["repository"] for one in callers()]
    assert len(callers()) >= 25
    assert [one for one in RECORDED["callers"] if one["false"] or one["missing"]] == []


def test_every_flaw_is_named_in_three_callers() -> None:
    assert {name: len(named) for name, named in RECORDED["seeded"].items()} == dict.fromkeys(FLAWS, SEEDS)


def test_the_doctor_names_what_the_other_checkers_name() -> None:
    assert [name for name, by in RECORDED["found"].items() if not by["doctor"]] == []
    assert RECORDED["found"].keys() == FLAWS.keys()


def test_callers_that_are_not_there_are_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["callers", str(tmp_path)])
    with pytest.raises(
        SystemExit, match=f"{tmp_path} lacks Legrandin/pycryptodome, .*: each has to be a git directory"
    ):
        main()
