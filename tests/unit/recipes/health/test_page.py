"""The page and the badge of a repository's builds: well formed, and closed to the text of others."""

from __future__ import annotations

from datetime import datetime, timezone
from xml.etree import ElementTree as ET

import pytest

from ci_tools.doctor.runs import RunOutcome
from ci_tools.recipes.health import Line, write_badge, write_page
from ci_tools.recipes.health.history import Result, Summary

NOW = datetime(2026, 11, 21, 4, 17, tzinfo=timezone.utc)
HOSTILE = "</th><script>alert(1)</script>\"' $page @octo"


def line(*outcomes: RunOutcome, name: str = "demo", page: str = "https://github.com/octo/demo") -> Line:
    return Line(name, "Python 3.13", "@o/gpu", tuple(Result(one, NOW, page) for one in outcomes), "demo-v1.0", page)


def test_each_line_is_a_row_with_its_past_the_oldest_first() -> None:
    page = write_page("octo/demo", [line(RunOutcome.BAD, RunOutcome.GOOD)], NOW).decode()
    row = page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert row.index("2026-11-21: succeeded") < row.index("2026-11-21: failed")
    assert "<strong>failed</strong>" in row
    assert "1 of 2<ol>" in row
    assert "0 of 1 build. Read at" in page


def test_the_text_of_others_has_no_effect() -> None:
    page = write_page(HOSTILE, [line(RunOutcome.GOOD, name=HOSTILE, page=f"javascript:{HOSTILE}")], NOW).decode()
    assert "<script" not in page
    assert "javascript:" not in page
    assert page.count("$page @octo") == 3


@pytest.mark.parametrize(
    ("summary", "text", "colour"),
    [
        pytest.param(Summary(3, 3), "wheels: 3 of 3 build", "#23762b", id="good"),
        pytest.param(Summary(2, 3), "wheels: 2 of 3 build", "#b3261e", id="bad"),
        pytest.param(Summary(0, 0), "wheels: no run yet", "#5f5f5f", id="unknown"),
    ],
)
def test_the_badge_says_it_in_words_and_colour(summary: Summary, text: str, colour: str) -> None:
    image = ET.fromstring(write_badge(summary))  # noqa: S314 - our own
    assert image.findtext("{*}title") == image.get("aria-label") == text
    assert colour in write_badge(summary)
