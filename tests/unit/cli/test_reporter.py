"""A long transfer says how much there is and how long it takes, on a terminal and in a log."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from rich.console import Console

from ci_tools.cli import reporter
from ci_tools.cli.reporter import TerminalReporter

if TYPE_CHECKING:
    import pytest

MEGABYTE = 10**6


def transfer(*, is_terminal: bool) -> str:
    """Return what is said of a transfer of ten megabytes."""
    heard = io.StringIO()
    console = Console(file=heard, force_terminal=is_terminal, width=120, color_system=None)
    with TerminalReporter(lambda: console).step("fetch a toolkit") as step:
        for done in range(1, 11):
            step.progress(done * MEGABYTE, 10 * MEGABYTE)
            step.live.refresh()
    return heard.getvalue()


def test_a_terminal_shows_bytes_and_time_left() -> None:
    said = transfer(is_terminal=True)
    assert "10.0/10.0 MB" in said
    assert re.search(r"\d:\d\d:\d\d.*\d:\d\d:\d\d", said)  # the time so far, and the time left


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "EVERY", 0.0)
    lines = transfer(is_terminal=False).splitlines()
    assert re.fullmatch(r"fetch a toolkit: 1\.0 MB of 10\.0 MB, \d+ s left", lines[0])
    assert re.fullmatch(r"fetch a toolkit \(\d+\.\d s\)", lines[-1])


def test_a_log_has_one_line_for_a_short_transfer() -> None:
    assert len(transfer(is_terminal=False).splitlines()) == 1


def observation(*, is_terminal: bool) -> str:
    """Return what a console shows of a step that has counted ten cells."""
    heard = io.StringIO()
    console = Console(file=heard, force_terminal=is_terminal, width=120, color_system=None)
    with TerminalReporter(lambda: console).step("observe") as step:
        for done in range(10):
            step.count(done, 10, "cells")
            step.live.refresh()
    return heard.getvalue()


def test_a_terminal_shows_how_many_cells_are_known() -> None:
    assert re.search(r"9/10 cells +\d:\d\d:\d\d", observation(is_terminal=True))


def test_a_log_says_how_many_cells_are_known_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporter, "EVERY", 0.0)
    lines = observation(is_terminal=False).splitlines()
    assert re.fullmatch(r"observe: 9 of 10 cells, \d+ s left", lines[-2])
