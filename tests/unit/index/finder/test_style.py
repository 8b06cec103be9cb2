"""A dark scheme changes colours only: that is why the tests of pages look for its other barriers in a light one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CI_TOOLS = Path(__file__).parents[4] / "ci_tools"
DARK = re.compile(r"@media \(prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}\s*\}", re.DOTALL)


@pytest.mark.parametrize("style", ["index/finder/style/page.css", "recipes/health.css"])
def test_a_dark_scheme_gives_other_colours_and_nothing_else(style: str) -> None:
    text = (CI_TOOLS / style).read_text(encoding="utf-8")
    (colours,) = DARK.findall(text)
    said = [line.strip() for line in colours.strip().splitlines()]
    assert [line for line in said if not re.fullmatch(r"--[a-z-]+: #[0-9a-f]{6};", line)] == []
    assert text.count("prefers-color-scheme") == 1
