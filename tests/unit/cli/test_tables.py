"""What a person sees is what is meant: no text of others moves the cursor, and none becomes a picture."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from ci_tools.cli.main import main
from ci_tools.cli.reporter import TerminalReporter
from ci_tools.cli.tables.layout import plain, show
from ci_tools.cli.tables.release import preview_tables, publication_tables
from ci_tools.cli.tables.upkeep import flaws_table
from ci_tools.publish.index.maintain import Flaw
from ci_tools.publish.transaction import Shown
from ci_tools.publish.units import Change, Published, Withheld

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ci_tools.cli.tables.layout import Table

HOSTILE = "a\x1b[31mred\x9b2J\u202eb\udcff\r[bold]c[/] :x: github:x:"
ESCAPED = r"a\x1b[31mred\x9b2J\u202eb\udcff\r[bold]c[/] :x: github:x:"
TABLES: list[Iterable[Table]] = [
    flaws_table([Flaw(HOSTILE, "what")]),
    publication_tables([Shown(HOSTILE, (Published(HOSTILE, "there", new=False),))], ()),
    publication_tables([], [Withheld("linux-cuda", HOSTILE)]),
    preview_tables([("core", HOSTILE, Change("add", "there"))], ()),
]


def test_nothing_that_moves_a_cursor_goes_through_and_every_letter_does() -> None:
    assert plain(HOSTILE) == ESCAPED
    same = "ordinary\n\ttext, “größer” → 中文\u3000\u00a0🎡"
    assert plain(same) == same


@pytest.mark.parametrize("table", TABLES)
def test_a_table_shows_hostile_text_escaped(table: Iterable[Table], capsys: pytest.CaptureFixture[str]) -> None:
    show(table)
    assert ESCAPED in capsys.readouterr().out


@pytest.mark.parametrize("is_terminal", [True, False])
def test_talk_shows_hostile_text_escaped(is_terminal: bool) -> None:  # noqa: FBT001 - a parameter
    heard = io.StringIO()
    console = Console(file=heard, force_terminal=is_terminal, width=200, color_system=None)
    talk = TerminalReporter(lambda: console)
    talk.say(HOSTILE)
    with talk.step(HOSTILE) as step:
        step.waiting(1.0)
        step.live.refresh()
        step.result(HOSTILE)
    said = heard.getvalue()
    assert (said.count(ESCAPED) >= 3, "\x1b[31m" in said, "\x9b" in said) == (True, False, False)


@pytest.mark.slow
def test_an_error_shows_hostile_text_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "\x1b[31mred :x:", "--format", "json"]) == 2
    said = capsys.readouterr().err
    assert ("\\x1b[31mred :x:" in said, "\x1b" in said) == (True, False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--tag", ""],
        ["plan", "--nightly", " "],
        ["release", "--tag="],
        ["build", "--job", "pure", "--out", "dist", "--tag", ""],
        ["publish", "dist", "--only", ""],
    ],
)
def test_an_option_that_an_empty_variable_was_given_to_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert "it is empty, expected a value" in capsys.readouterr().err
