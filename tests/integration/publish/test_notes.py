"""The notes of a release: what takes longer."""

from __future__ import annotations

import pytest

from ci_tools.publish.notes import MAX_CHARACTERS, notes
from tests.unit.publish.test_notes import PURE, Shown, built, item, unit

pytestmark = pytest.mark.slow


def test_notes_of_very_many_ways_to_build_are_cut() -> None:
    items = (built(f"{n}.whl", "", "", image=f"image {n}")._replace(gpu=f"tried on {n}") for n in range(3000))
    text = notes(unit(*items))
    assert 0 < len(text) <= MAX_CHARACTERS
    assert "And 2,960 more" in text


def test_a_long_table_ends_with_where_the_rest_is() -> None:
    many = unit(*(item(f"demo-1.0-{number}-py3-none-any.whl", PURE) for number in range(2000)))
    text = notes(many)
    rows = Shown(text).tags.count("tr") - 1
    assert (len(text) <= MAX_CHARACTERS, 100 < rows < 2000) == (True, True)
    assert f"And {2000 - rows:,} more: every file is among the assets" in text
