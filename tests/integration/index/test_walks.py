"""Random walks through the life of an index, by us and by other tools, with kills in between."""

from __future__ import annotations

import json

import pytest

from ci_tools.index.maintain import marks
from tests.builders.index_walks import KINDS, walk
from tests.proof.index_walks import RECORD, WALKS, model

pytestmark = pytest.mark.slow

EACH = 12  # walks of each kind; `make proof` takes two thousand


@pytest.mark.parametrize("kind", KINDS)
def test_installers_see_what_the_model_says(kind: str) -> None:
    seeds = range(KINDS.index(kind), EACH * len(KINDS), len(KINDS))
    assert [(one.seed, one.steps, one.complaints) for one in map(walk, seeds) if one.complaints] == []


def test_the_model_sees_an_undo_that_takes_away_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "restore", lambda index, release: marks.yank(index, release, None))
    assert any(walk(seed).complaints for seed in range(80))


def test_the_record_is_of_this_model_and_nothing_went_wrong() -> None:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert (record["walks"], record["wrong"], record["model"]) == (WALKS, [], model())
