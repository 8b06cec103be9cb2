"""The record of strangers' checkouts is of the list that was fixed before the first attempt."""

from __future__ import annotations

import json

from tests.proof.strangers import RECORD, projects

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))


def test_each_recorded_checkout_is_one_of_the_list() -> None:
    names = [project["name"] for project in projects()]
    assert [one["name"] for one in RECORDED] == [name for name in names if name in {one["name"] for one in RECORDED}]


def test_each_recorded_checkout_came_to_an_import_or_says_where_it_ended() -> None:
    assert [one["name"] for one in RECORDED if not (one.get("imported") or one.get("ended"))] == []
