"""The scheduled runs of a platform, told to its owner in an issue."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from ci_tools.github import owners
from ci_tools.github.client import Hub
from ci_tools.machine.context import Outside, Silent
from tests.servers.github import REPOSITORY, TOKEN, GitHub
from tests.servers.github_issues import Opened, Talk

CONFIG = """\
package: demo
python: ["3.12"]
platforms:
  linux-cpu: { owner: "@octo/cpu", native: ["*.c"] }
  windows:
"""
NOW = datetime(2026, 11, 21, 4, 17, tzinfo=timezone.utc)
LATER = datetime(2026, 11, 28, 4, 17, tzinfo=timezone.utc)


def tell(
    hub: GitHub,
    *results: str,
    number: int = 1,
    platform: str = "linux-cpu",
    now: datetime = NOW,
    config: Path = Path("fatwheel.yml"),
) -> str:
    """Tell of the run with this number, whose jobs came to these results; return the address of the issue."""
    outside = Outside(environ={"GH_TOKEN": TOKEN, "GITHUB_API_URL": hub.url}, cache=Path("nowhere"), reporter=Silent())
    there = Hub(REPOSITORY, outside, pause=0.01, patience=5, permission=owners.PERMISSION)
    run = owners.ActionsRun(str(number), f"https://github.com/{REPOSITORY}/actions/runs/{number}")
    return owners.tell(there, owners.news(config, platform, results, run, now))


def only(talk: Talk) -> Opened:
    """Return the one issue that is open."""
    (issue,) = (one for one in talk.issues if one.state == "open")
    return issue
