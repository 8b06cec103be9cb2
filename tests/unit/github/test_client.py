"""What a client of GitHub does unless it is told otherwise; tests tell it not to wait."""

from __future__ import annotations

from pathlib import Path

from ci_tools.github.client import Hub
from ci_tools.machine.context import Outside, Silent
from ci_tools.publish.targets.github_release import GitHubTarget

OUTSIDE = Outside(environ={}, cache=Path("nowhere"), reporter=Silent())


def test_a_second_lies_between_two_writes_as_github_asks() -> None:
    assert Hub("octo/demo", OUTSIDE).pause == GitHubTarget("octo/demo", OUTSIDE).pause == 1.0
