"""A browser for tests: a Chromium by playwright."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; one is installed where a package manager may do so, as in a container."""
    for attempt in ("found", "installed"):
        if path := next(filter(None, map(shutil.which, BROWSERS)), None):
            return path
        if attempt == "found" and shutil.which("apt-get") and os.geteuid() == 0:
            subprocess.run(["apt-get", "update"], check=False, capture_output=True, timeout=300)
            subprocess.run(["apt-get", "install", "-y", "chromium"], check=False, capture_output=True, timeout=600)
    return pytest.skip(f"there is none of {', '.join(BROWSERS)} on PATH, and none can be installed")


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pages are looked at through playwright")
    with playwright.sync_playwright() as play:
        running = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()
